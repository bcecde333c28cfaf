"""The pages in Debian's Chromium: the main paths, without a script too, by keyboard, at 360 px, in both schemes and languages.

Skipped, and said so, where there is no Chromium (.ci/run installs it where it may).
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect, sync_playwright

from tests.web.conftest import CAUSE, LOG, SMI, Running, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
if _CHROMIUM is None:
    print("tests/web/test_browser.py: no Chromium is installed, the pages are not tried in a browser", file=sys.stderr)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(_CHROMIUM is None, reason="no Chromium is installed (Debian: apt-get install chromium)"),
    pytest.mark.xdist_group("browser"),
]

WIDTHS = (360, 1280, 3840)
NASTY = b"<script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(f"sqlite:///{tmp_path_factory.mktemp('pages') / 'store.db'}") as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


class Watched:
    """A context that remembers what must not happen: messages of the policy, errors of scripts, requests elsewhere, dialogs."""

    def __init__(self, browser: Browser, site: Running, **options: Any) -> None:
        self.bad: list[str] = []
        self.context: BrowserContext = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, "base_url": site.url, **options})
        self._own = site.url

    def page(self) -> Page:
        page = self.context.new_page()
        page.set_default_timeout(15_000)
        page.on("console", lambda message: self.bad.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.bad.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith((self._own, "data:", "blob:")) else self.bad.append(request.url))
        return page


@pytest.fixture
def watched(browser: Browser, site: Running) -> Iterator[Callable[..., Page]]:
    """Makes pages; afterwards nothing bad may have happened on any of them."""
    made: list[Watched] = []

    def make(**options: Any) -> Page:
        made.append(Watched(browser, site, **options))
        return made[-1].page()

    yield make
    for one in made:
        one.context.close()
    assert [text for one in made for text in one.bad] == []


def example(page: Page, title: str = "A start that failed") -> None:
    """The report of an example, one click from the start page."""
    page.goto("/?lang=en")
    page.get_by_role("button", name=title).click()
    page.wait_for_url(re.compile(r"/a/[\w-]{22}"))


def dropped(page: Page, form: str, files: dict[str, bytes]) -> None:
    """Drop files onto a form."""
    given = [[name, data.decode()] for name, data in files.items()]
    page.evaluate(
        """([form, files]) => {
            const data = new DataTransfer();
            for (const [name, text] of files) data.items.add(new File([text], name, {type: "text/plain"}));
            const target = document.querySelector(form);
            for (const kind of ["dragenter", "dragover", "drop"])
                target.dispatchEvent(new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true}));
        }""",
        [form, given],
    )


# --- the main paths --------------------------------------------------------------------------------------------------------------


def test_paste_and_read(watched: Callable[..., Page]) -> None:
    page = watched()
    page.goto("/?lang=en")
    page.get_by_label("Paste the log here").fill(LOG.decode())
    page.get_by_role("button", name="Analyse", exact=True).click()
    page.wait_for_url(re.compile(r"/a/[\w-]{22}"))
    expect(page.locator(".verdict")).to_contain_text(CAUSE)
    expect(page.locator(".viewer-row").first).to_be_visible()


def test_drop_two_files_and_leave_one_out(watched: Callable[..., Page]) -> None:
    page = watched()
    page.goto("/?lang=en")
    dropped(page, "form.drop", {"engine.log": LOG, "other.txt": b"nothing"})
    dropped(page, "form.drop", {"smi.txt": SMI})
    expect(page.locator(".files li")).to_have_count(3)
    page.get_by_role("button", name="Leave out: other.txt").click()
    page.get_by_role("button", name="Analyse", exact=True).click()
    page.wait_for_url(re.compile(r"/a/[\w-]{22}"))
    expect(page.locator(".engine").first).to_contain_text("engine.log")
    expect(page.locator(".engine").first).to_contain_text("smi.txt")
    expect(page.locator("body")).not_to_contain_text("other.txt")


def test_an_upload_shows_how_far_it_is_and_can_be_cancelled(watched: Callable[..., Page], site: Running) -> None:
    page = watched()
    before = site.stored(-1, seconds=0)
    page.goto("/?lang=en")
    # A slow line, so that there is something to see and to stop.
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.send(
        "Network.emulateNetworkConditions", {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 200_000}
    )
    dropped(page, "form.drop", {"large.log": b"INFO a line of a log\n" * 300_000})
    page.get_by_role("button", name="Analyse", exact=True).click()
    expect(page.locator(".sending progress")).to_be_visible()
    expect(page.locator(".sending output")).not_to_have_text("0 %")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alert")).to_contain_text("Cancelled")
    expect(page.get_by_role("button", name="Analyse", exact=True)).to_be_enabled()
    assert site.stored(before, seconds=3) == before


def test_what_cannot_be_read_is_said_on_the_page(watched: Callable[..., Page], browser: Browser, site: Running) -> None:
    page = watched()
    page.goto("/?lang=en")
    page.get_by_role("button", name="Analyse", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Paste something")
    # The browser notes the refusal in its console, which is what this page is for.
    one = Watched(browser, site)
    page = one.page()
    page.goto("/?lang=en")
    page.set_input_files("#new-files", {"name": "x.bin", "mimeType": "application/octet-stream", "buffer": bytes(range(256)) * 64})
    page.get_by_role("button", name="Analyse", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert all("status of 4" in text for text in one.bad)
    one.context.close()


def test_a_part_of_the_ledger_leads_to_its_line(watched: Callable[..., Page]) -> None:
    page = watched()
    example(page)
    page.locator("svg.ledger a").first.click()
    line = re.search(r"#L(\d+)$", page.url)
    assert line
    chosen = page.locator(".viewer-row.chosen")
    expect(chosen).to_contain_text("model weights take 7.51GiB")
    expect(chosen.locator("a")).to_have_text(line[1])
    expect(chosen).to_be_in_viewport()
    page.goto(page.url.split("#")[0] + "#L2-L5")
    page.reload()
    expect(page.locator(".viewer-row.chosen")).to_have_count(4)
    page.get_by_role("button", name="next evidence").click()
    expect(page.locator(".viewer-row.chosen.proof")).to_have_count(1)


def test_a_line_chosen_while_the_log_is_on_its_way_is_shown(watched: Callable[..., Page]) -> None:
    page = watched()
    held: list[Route] = []
    page.route(re.compile(r"/v1/analyses/[^/]+/log"), lambda route: held.append(route))
    example(page)
    page.wait_for_function("() => !document.querySelector('.viewer').hidden")
    page.locator("svg.ledger a").first.click()
    for route in held:
        route.continue_()
    expect(page.locator(".viewer-row.chosen")).to_contain_text("model weights take 7.51GiB")
    expect(page.locator(".viewer-row.chosen")).to_be_in_viewport()


def test_a_row_that_stays_on_the_screen_is_not_made_anew(watched: Callable[..., Page]) -> None:
    """Else a click on it is lost when the log is drawn again between pressing and letting go, and so is a selection."""
    page = watched()
    example(page)
    page.wait_for_function("() => document.querySelectorAll('.viewer-row').length > 9")
    page.evaluate("() => { window.row = document.querySelectorAll('.viewer-row')[9]; }")
    page.locator("svg.ledger a").first.click()
    expect(page.locator(".viewer-row.chosen")).to_have_count(1)
    assert page.evaluate("() => window.row.isConnected")


def test_a_slider_redraws_the_bar(watched: Callable[..., Page]) -> None:
    page = watched()
    example(page)
    slider = page.get_by_label("--gpu-memory-utilization")
    slider.focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    answer = page.locator("#answer")
    expect(answer).to_contain_text("KV cache 4.55 → 3.76 GiB")
    expect(answer.locator("svg.ledger")).to_have_count(1)
    page.get_by_role("button", name="As it was").click()
    expect(answer).not_to_contain_text("3.76")


def test_add_a_dump_to_a_report(watched: Callable[..., Page]) -> None:
    page = watched()
    example(page)
    address = page.url.split("?")[0]
    dropped(page, "#add form.drop", {"smi.txt": SMI})
    page.get_by_role("button", name="Analyse again").click()
    expect(page.locator(".engine").first).to_contain_text("smi.txt")
    assert page.url.split("?")[0] == address
    page.locator("[data-input]").select_option("1")
    expect(page.locator(".viewer-row").nth(1)).to_contain_text("NVIDIA L4")


def test_helped_or_wrong_is_kept(watched: Callable[..., Page]) -> None:
    page = watched()
    example(page)
    page.get_by_role("button", name="It is wrong").click()
    expect(page.locator("#told")).to_contain_text("helped 0, wrong 1")
    page.reload()
    page.get_by_role("button", name="It helped").click()
    expect(page.locator("#told")).to_contain_text("helped 1, wrong 0")


def test_delete_asks_first(watched: Callable[..., Page]) -> None:
    page = watched()
    example(page)
    address = page.url
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Delete this analysis").click()
    assert page.url == address
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete this analysis").click()
    page.wait_for_url("**/?deleted=1")
    expect(page.get_by_role("status")).to_be_visible()
    assert page.request.get(address).status == 404


def test_copying(watched: Callable[..., Page], site: Running) -> None:
    page = watched()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=site.url)
    example(page)
    page.locator("button.copy").first.click()
    expect(page.locator("button.copy").first).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "--gpu-memory-utilization 0.9"
    page.get_by_role("button", name="Copy as Markdown").click()
    expect(page.locator("[data-fetch-copy]")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()").startswith("## FAILED")


def test_compare_two_of_the_history(watched: Callable[..., Page]) -> None:
    page = watched()
    example(page)
    example(page, "A healthy start")
    page.goto("/history?lang=en")
    page.get_by_label("Search").fill("engine.log")
    page.wait_for_url(re.compile("q=engine.log"))
    page.get_by_role("button", name="Compare the two").click()
    expect(page.locator("h1")).to_have_text("Fixed")
    expect(page.locator(".sides article")).to_have_count(2)
    expect(page.locator("section.report svg.ledger").first).to_be_visible()


def test_causes_can_be_searched(watched: Callable[..., Page]) -> None:
    page = watched()
    page.goto("/patterns?lang=en")
    before = page.locator(".family a").count()
    page.get_by_label("Search").press_sequentially("graph_capture")
    expect(page.locator("#list")).to_contain_text("cuda_oom.graph_capture")
    expect(page.locator(".family a")).not_to_have_count(before)
    page.get_by_role("link", name="CUDA graphs did not fit beside the budget").click()
    expect(page.get_by_role("heading", name="What to change")).to_be_visible()


def test_chinese_by_the_browser_and_by_choice(watched: Callable[..., Page]) -> None:
    page = watched(locale="zh-CN")
    page.goto("/")
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    page.get_by_role("button", name="启动失败").click()
    expect(page.locator(".verdict")).to_contain_text("失败")
    page.get_by_role("link", name="English").click()
    expect(page.locator(".verdict")).to_contain_text("FAILED")
    assert page.url.endswith("?lang=en")


# --- without a script, by keyboard -----------------------------------------------------------------------------------------------


def test_everything_but_the_sliders_works_without_a_script(watched: Callable[..., Page]) -> None:
    page = watched(java_script_enabled=False)
    page.goto("/?lang=en")
    page.get_by_label("Paste the log here").fill(LOG.decode())
    page.set_input_files("#new-files", {"name": "smi.txt", "mimeType": "text/plain", "buffer": SMI})
    page.get_by_role("button", name="Analyse", exact=True).click()
    expect(page.locator(".verdict")).to_contain_text(CAUSE)
    expect(page.locator(".viewer")).to_be_hidden()
    page.locator(".proof a").first.click()
    expect(page.locator(".lines li:target")).to_be_in_viewport()
    page.get_by_role("link", name=re.compile("^all of ")).first.click()
    expect(page.locator(".whole li.proof").first).to_be_visible()
    page.get_by_role("link", name="Back to the report").click()
    page.get_by_role("button", name="It helped").click()
    expect(page.locator("#told")).to_contain_text("helped 1")
    page.get_by_label("Paste it here").fill("vllm serve m --max-model-len 4096")
    page.get_by_role("button", name="Analyse again").click()
    expect(page.locator(".verdict")).to_contain_text(CAUSE)
    page.get_by_role("button", name="Delete this analysis").click()
    expect(page.get_by_role("status")).to_contain_text("Deleted")


def test_settings_can_be_tried_without_a_script(watched: Callable[..., Page]) -> None:
    page = watched(java_script_enabled=False)
    example(page)
    page.get_by_label("--kv-cache-dtype").select_option("fp8")
    page.get_by_role("button", name="Work it out").click()
    expect(page.locator("#answer svg.ledger").first).to_be_visible()


def test_by_keyboard(watched: Callable[..., Page]) -> None:
    page = watched()
    page.goto("/?lang=en")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the content")).to_be_focused()
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent").startswith("A start that failed"):
            break
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/a/[\w-]{22}"))
    seen: list[str] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.getAttribute('href') ?? document.activeElement.className"))
    assert any(target.startswith("#L") for target in seen)
    focused = page.evaluate(
        "(() => { const s = getComputedStyle(document.activeElement); return s.outlineStyle !== 'none' || s.boxShadow !== 'none'; })()"
    )
    assert focused


# --- every page ------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def addresses(site: Running) -> dict[str, str]:
    """Every kind of page, with a report of each kind."""
    with site.client() as client:
        made = {
            name: client.post(f"/examples/{name}").headers["location"] for name in ("startup-failure", "healthy-start", "orphan-process")
        }
        hostile = client.post("/", files={"file": ("<b>x<i>.log", LOG.replace(b"ValueError: ", b"ValueError: " + NASTY))}).headers[
            "location"
        ]
        wide = client.put("/wide.log", content=b"ERROR " + b"x" * 5000 + b"\n" + LOG).headers["location"]
    a, b = (made[name][3:] for name in ("startup-failure", "healthy-start"))
    pages = {
        "home": "/",
        "history": "/history",
        "patterns": "/patterns",
        "cause": "/patterns/cuda_oom.graph_capture",
        "docs": "/docs",
        "compare": f"/compare?a={a}&b={b}",
        "log": f"/a/{a}/log",
        "what-if": f"/a/{a}/what-if?utilization=0.8",
        "hostile": hostile,
        "wide": wide,
    }
    return {**pages, **made}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_page_is_wider_than_its_window(watched: Callable[..., Page], addresses: dict[str, str], language: str) -> None:
    page = watched()
    wide = []
    for name, path in addresses.items():
        page.goto(f"{path}{'&' if '?' in path else '?'}lang={language}", wait_until="networkidle")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if over > 0:
                wide.append((name, width, over))
    assert wide == []


@pytest.mark.parametrize(("scheme", "language", "width"), [("light", "en", 1280), ("dark", "zh", 1280), ("dark", "en", 360)])
def test_axe_finds_nothing_serious(watched: Callable[..., Page], addresses: dict[str, str], scheme: str, language: str, width: int) -> None:
    import axe_playwright_python

    # Its source, given to the page by the browser's own interface: the page's policy would refuse a script element.
    axe = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    page = watched(color_scheme=scheme, viewport={"width": width, "height": 900})
    found = []
    for name, path in addresses.items():
        page.goto(f"{path}{'&' if '?' in path else '?'}lang={language}", wait_until="networkidle")
        page.evaluate(f"() => {{ {axe} }}")
        result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        assert result["passes"]
        serious = [one for one in result["violations"] if one["impact"] in ("serious", "critical")]
        found += [(name, one["id"], [node["target"] for node in one["nodes"]][:3]) for one in serious]
    assert found == []


def test_nothing_of_an_input_becomes_markup(watched: Callable[..., Page], addresses: dict[str, str]) -> None:
    page = watched()
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))
    for path in (addresses["hostile"], addresses["hostile"] + "/log", "/history"):
        page.goto(path, wait_until="networkidle")
        assert page.locator("main img").count() == 0
        assert page.locator("main b").count() == 0
        expect(page.locator("main")).to_contain_text("<b>x<i>.log")
    page.goto(addresses["hostile"], wait_until="networkidle")
    expect(page.locator("#proof")).to_contain_text("<script>alert(1)</script>")


# --- a long log ------------------------------------------------------------------------------------------------------------------


def test_a_log_of_200_000_lines_scrolls(watched: Callable[..., Page], site: Running) -> None:
    noise = b"".join(b"INFO step %d of %s\n" % (place, b"abcdefg"[place % 7 : place % 7 + 1]) for place in range(199_000))
    repeated = b"".join(b"INFO usage: %d.0%%\n" % (place % 100) for place in range(1000))
    with site.client() as client:
        path = client.put("/long.log", content=LOG + repeated + noise).headers["location"]
    page = watched()
    sizes: list[int] = []
    page.on("response", lambda answer: sizes.append(int(answer.headers.get("content-length", 0))))
    page.goto(path, wait_until="networkidle")
    assert sum(sizes) < 2 << 20
    assert page.locator(".viewer-row").count() < 100
    box = page.locator(".viewer-box")
    box.evaluate("box => { box.scrollTop = box.scrollHeight; }")
    expect(page.locator(".viewer-row").last).to_contain_text("INFO step 198999")
    first = LOG.count(b"\n") + 1
    page.goto(f"{path}#L{first}")
    fold = page.get_by_role("button", name="998 lines like this one")
    expect(fold).to_be_visible()
    fold.click()
    expect(page.locator(".viewer-row", has_text="usage: 5.0%").first).to_be_visible()
    page.goto(f"{path}#L150000")
    expect(page.locator(".viewer-row.chosen a")).to_have_text("150000")
    assert json.loads(page.locator(".viewer").get_attribute("data-marks") or "[]")
