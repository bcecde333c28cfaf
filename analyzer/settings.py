"""Everything that can be set: the environment (``VRAMLEDGER_…``), then ``vramledger.toml`` in the working directory.

What a command's flags say is passed as arguments and wins over both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from analyzer.intake.limits import Limits
from analyzer.model.text import LANGUAGES
from analyzer.model.units import GIB, KIB, MIB

FILE = "vramledger.toml"
PREFIX = "VRAMLEDGER_"

_Secrets = Annotated[tuple[SecretStr, ...], NoDecode]
_Names = Annotated[tuple[str, ...], NoDecode]
_Paths = Annotated[tuple[Path, ...], NoDecode]


class SettingsError(ValueError):
    """A setting that cannot be used; the message names each, and why."""


class Settings(BaseSettings):
    """The settings of the service. Sizes in bytes, times in seconds, unless the name says otherwise."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, toml_file=FILE, extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535)
    public: bool = False  # bind to anything but loopback without tokens
    public_url: str | None = None  # what links begin with; None: what the request says
    trusted_proxies: _Names = ()  # addresses whose X-Forwarded-… headers are believed

    data_dir: Path | None = None  # None: the platform's user data folder
    database_url: str | None = None  # None: sqlite in the data folder
    retention_days: int = Field(0, ge=0)  # analyses older than this are deleted; 0 keeps them

    tokens: _Secrets = ()  # of the API: history and deletion need one
    upload_tokens: _Secrets = ()  # when set, an upload needs one of these (or of tokens)
    rate_limit: int = Field(60, ge=0)  # uploads a minute of an address; 0: no rate limits at all
    read_rate_limit: int = Field(600, ge=0)  # other requests a minute of an address

    max_body_bytes: int = Field(2 * GIB, ge=1)
    max_expanded_bytes: int = Field(4 * GIB, ge=1)
    max_expansion_ratio: int = Field(200, ge=1)
    max_files: int = Field(64, ge=1)
    max_line_bytes: int = Field(64 * KIB, ge=1024)
    stored_head_bytes: int = Field(8 * MIB, ge=0)  # of an input's text, redacted, what is kept: its head …
    stored_tail_bytes: int = Field(8 * MIB, ge=0)  # … and its tail
    analysis_cpu_seconds: float = Field(60, gt=0)  # what an analysis may use before it is given up
    upload_timeout: float = Field(30, gt=0)  # without a byte of a body whose length is known
    pipe_idle_seconds: float = Field(86400, gt=0)  # without a byte of one whose length is not
    pipes_per_address: int = Field(32, ge=1)
    max_connections: int = Field(1000, ge=1)  # open at the same time; one more is answered 503
    connections_per_address: int = Field(256, ge=1)  # not counted behind a trusted proxy

    patterns: _Paths = ()  # folders of own patterns, beside the library
    lang: str = "en"  # for whoever does not say
    log: Literal["text", "json"] = "text"  # json: a line for each request, too
    sentry_dsn: SecretStr | None = None  # where our own errors are told
    sentry_groups: bool = False  # tell each failure that is seen for the first time there, too
    otlp_endpoint: str | None = None  # where traces go, e.g. http://collector:4318

    job_lease_seconds: float = Field(60, gt=0)  # without a sign of life of its worker, a queued analysis is given to another one
    slack_bot_token: SecretStr | None = None  # xoxb-…: the bot's own
    slack_signing_secret: SecretStr | None = None  # with it, Slack's events are taken at /slack/events
    slack_app_token: SecretStr | None = None  # xapp-…: for `vramledger slack`, which needs no address of its own
    slack_api_url: str = "https://slack.com/api/"  # https://slack-gov.com/api/ for GovSlack
    slack_watch_channels: _Names = ()  # ids of channels (C…) in which messages that are certain failures are answered unasked
    slack_max_file_bytes: int = Field(32 * MIB, ge=1)  # of one file that is dropped there

    @field_validator("tokens", "upload_tokens", "trusted_proxies", "patterns", "slack_watch_channels", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """The environment writes lists with commas."""
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        return value

    @field_validator("tokens", "upload_tokens")
    @classmethod
    def _long_enough(cls, value: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if any(len(token.get_secret_value()) < 8 for token in value):
            raise ValueError("a token shorter than 8 characters is guessed; make one with: openssl rand -hex 16")
        return value

    @field_validator("lang")
    @classmethod
    def _spoken(cls, value: str) -> str:
        if value not in LANGUAGES:
            raise ValueError(f"the product speaks {' and '.join(LANGUAGES)}")
        return value

    @field_validator("public_url")
    @classmethod
    def _without_slash(cls, value: str | None) -> str | None:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError("a URL begins with http:// or https://")
        return value.rstrip("/") if value else None

    @field_validator("slack_api_url")
    @classmethod
    def _with_slash(cls, value: str) -> str:
        if not value.startswith(("https://", "http://127.0.0.1", "http://localhost")):
            raise ValueError("the bot's token is only sent over https://")
        return value.rstrip("/") + "/"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @property
    def data_folder(self) -> Path:
        """Where the database lies unless a URL says otherwise."""
        if self.data_dir is not None:
            return self.data_dir
        import platformdirs

        return Path(platformdirs.user_data_dir("vramledger", appauthor=False))

    @property
    def database(self) -> str:
        """The database's URL, in SQLAlchemy's spelling; a plain ``postgresql://`` is one for the driver that is installed."""
        url = self.database_url or f"sqlite:///{self.data_folder / 'vramledger.db'}"
        for plain in ("postgresql://", "postgres://"):
            if url.startswith(plain):
                return "postgresql+psycopg://" + url.removeprefix(plain)
        return url

    @property
    def limits(self) -> Limits:
        """The bounds of one analysis."""
        return Limits(
            max_body_bytes=self.max_body_bytes,
            max_expanded_bytes=self.max_expanded_bytes,
            max_expansion_ratio=self.max_expansion_ratio,
            max_line_bytes=self.max_line_bytes,
            max_files=self.max_files,
        )


def load(**given: Any) -> Settings:
    """The settings, with ``given`` (None: not given) winning over environment and file.

    Raises SettingsError, which names every setting that cannot be used, and never shows its value.
    """
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise SettingsError("\n".join(map(_said, error.errors(include_input=False)))) from None
    except ValueError as error:  # a settings file that is no TOML
        raise SettingsError(f"{FILE}: {error}") from None


def _said(problem: Any) -> str:
    name = ".".join(map(str, problem["loc"])).upper()
    return f"{PREFIX}{name}: {problem['msg'].removeprefix('Value error, ')}"
