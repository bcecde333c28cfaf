# The service in one image. Everything that is installed is pinned by hash; the code itself is copied, so nothing is built here.
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPATH=/app \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /app
COPY requirements/run.lock requirements/run.lock
RUN pip install --require-hashes -r requirements/run.lock

COPY analyzer analyzer
COPY migrations migrations
COPY patterns patterns
# pip compiles what it installs; what is copied is compiled here, since the process may not write beside it.
RUN python -m compileall -q analyzer
RUN printf '#!/usr/local/bin/python\nimport sys\n\nfrom analyzer.cli import main\n\nsys.exit(main())\n' > /usr/local/bin/vramledger \
    && chmod 755 /usr/local/bin/vramledger \
    && useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin vramledger \
    && install -d -o vramledger -g vramledger -m 700 /data \
    && install -d -o vramledger -g vramledger /app/cache

ENV VRAMLEDGER_HOST=0.0.0.0 \
    VRAMLEDGER_PORT=8000 \
    VRAMLEDGER_DATA_DIR=/data \
    VRAMLEDGER_CACHE_DIR=/app/cache

USER vramledger
# The parsed pattern library, so that the first start does not wait for it.
RUN python -c "from analyzer.patterns.load import load; load()"

VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as u; u.urlopen(f\"http://127.0.0.1:{os.environ['VRAMLEDGER_PORT']}/readyz\", timeout=4)"]

# Outside of the container others reach it: it starts with VRAMLEDGER_TOKENS, or with VRAMLEDGER_PUBLIC=1 where that is meant.
CMD ["vramledger", "serve"]
