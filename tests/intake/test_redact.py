from __future__ import annotations

import ipaddress
import json
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from analyzer.data import folder
from analyzer.intake.redact import Redactor, redact_lines
from analyzer.intake.redaction_rules import Index
from analyzer.patterns.check import Checker
from analyzer.patterns.load import LibraryError

if TYPE_CHECKING:
    from analyzer.patterns.model import RedactionRule

FIXTURES = Path(__file__).parents[2] / "fixtures" / "redaction"


def _rules(content: bytes) -> tuple[RedactionRule, ...]:
    checker = Checker()
    checker.add("redactions.yaml", content)
    return checker.library("test").redactions


RULES = _rules((folder("patterns") / "redactions.yaml").read_bytes())
INDEX = Index(RULES, cache=False)


def clean(text: str) -> str:
    return Redactor(RULES).clean(text)


# --- the rules' own examples ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "line", "wanted"), [(rule.id, e["line"], e["clean"]) for rule in RULES for e in rule.examples])
def test_examples(rule: str, line: str, wanted: str) -> None:
    assert clean(line) == wanted
    assert clean(wanted) == wanted


@pytest.mark.parametrize(("rule", "line"), [(rule.id, line) for rule in RULES for line in rule.not_examples])
def test_not_examples(rule: str, line: str) -> None:
    assert clean(line) == line


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_each_rule_finds_its_examples_by_itself(rule: RedactionRule) -> None:
    """So that no rule lives on another's work, and its anchors and gates let it in."""
    for e in rule.examples:
        assert Redactor([rule]).clean(e["line"]) != e["line"]


def test_every_rule_is_explained_in_both_languages() -> None:
    for rule in RULES:
        assert set(rule.text) == {"en", "zh"}
        assert any("\u4e00" <= letter <= "\u9fff" for letter in rule.text["zh"]), rule.id
        assert rule.examples, rule.id


# --- logs ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", (FIXTURES / "untouched.txt").read_text(encoding="utf-8").splitlines())
def test_figures_flags_and_versions_stay(line: str) -> None:
    assert clean(line) == line


def test_a_text_full_of_secrets() -> None:
    dirty = (FIXTURES / "dirty.txt").read_text(encoding="utf-8")
    assert clean(dirty) == (FIXTURES / "dirty.clean.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("\x1b[36m10.1.1.1\x1b[0m up", "\x1b[36m<ip-1>\x1b[0m up"),
        ("\x1b[1;36mhf_abcdefghijklmnopqrstuvwxyzabcdefgh\x1b[0m", "\x1b[1;36m<token-1>\x1b[0m"),
        ('{"log":"a\\n10.1.1.1\\n"}', '{"log":"a\\n<ip-1>\\n"}'),
        ('C:\\Users\\x\\n\n{"log":"a\\n10.1.1.1\\n"}', 'C:\\Users\\<user-1>\\n\n{"log":"a\\n<ip-1>\\n"}'),
        ('{"log":"C:\\\\Users\\\\x\\\\n\\n10.1.1.1\\n"}', '{"log":"C:\\\\Users\\\\<user-1>\\\\n\\n<ip-1>\\n"}'),
        ("10.1.1.1 10.1.1.2 10.1.1.1", "<ip-1> <ip-2> <ip-1>"),
        ("FE80::A fe80::a", "<ip-1> <ip-1>"),
        ("İİİ 10.1.1.1", "İİİ <ip-1>"),
        ("连接到10.1.1.1失败", "连接到<ip-1>失败"),
        ("ip为10.1.1.1的节点fe80::1%eth0", "ip为<ip-1>的节点<ip-2>%eth0"),
        ("密码HF_TOKEN=sesame，邮箱a@example.com。", "密码HF_TOKEN=<token-1>"),
        ("\ud800 10.1.1.1 \udfff", "\ud800 <ip-1> \udfff"),
        ("", ""),
        ("\n\n", "\n\n"),
        ("a\r\nip 10.1.1.1\r\n", "a\r\nip <ip-1>\r\n"),
    ],
)
def test_shapes(line: str, wanted: str) -> None:
    assert clean(line) == wanted


def test_the_same_secret_is_the_same_stand_in_in_every_shape() -> None:
    redactor = Redactor(RULES)
    assert redactor.clean("--api-key s3cr3t") == "--api-key <token-1>"
    assert redactor.clean("api_key='s3cr3t', hf_token='other'") == "api_key='<token-1>', hf_token='<token-2>'"
    assert redactor.clean("Authorization: Bearer s3cr3t") == "Authorization: Bearer <token-1>"


def test_prime_keeps_new_numbers_from_old_ones() -> None:
    redactor = Redactor(RULES)
    redactor.prime("peers <ip-7> and <ip-2>, <email-1>")
    assert redactor.clean("10.0.0.1 a@example.com /home/alice/") == "<ip-8> <email-2> /home/<user-1>/"


def test_a_text_that_is_half_redacted_gets_other_numbers() -> None:
    assert clean("<ip-3> is not 10.0.0.1") == "<ip-3> is not <ip-4>"


# --- private keys --------------------------------------------------------------------------------------------------------------------

BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
KEY = ["-----BEGIN RSA PRIVATE KEY-----", "Proc-Type: 4,ENCRYPTED", "", BODY, "c2hvcnQ=", "-----END RSA PRIVATE KEY-----"]


def test_a_private_key_goes_with_all_its_lines() -> None:
    got = clean("\n".join(["before", *KEY, "after"])).split("\n")
    assert len(got) == len(KEY) + 2
    assert got[0] == "before"
    assert got[-1] == "after"
    assert all("dropped" in line or not line for line in got[1:-1])


def test_a_private_key_between_the_lines_of_a_log() -> None:
    prefix = "(EngineCore pid=7) ERROR 10-09 15:04:12 [a.py:1] "
    got = clean(
        "\n".join([prefix + KEY[0], prefix + BODY, "INFO GPU 0 uses 5.86 GiB at 10.0.0.1", prefix + KEY[-1] + " x", "Running: 2 reqs"])
    )
    assert BODY not in got
    assert "INFO GPU 0 uses 5.86 GiB at <ip-1>" in got
    assert got.endswith(" x\nRunning: 2 reqs")


def test_a_private_key_without_an_end_does_not_eat_the_log() -> None:
    lines = [KEY[0], BODY, *(f"Loading shard {number} of 90 took 1.0 s" for number in range(90))]
    assert clean("\n".join(lines)).split("\n")[2:] == lines[2:]


def test_lines_of_a_stream_are_cleaned_as_the_text_is() -> None:
    text = "\n".join(["a 10.0.0.1", *KEY, "b 10.0.0.2", "last 10.0.0.1"])
    assert "".join(redact_lines(Redactor(RULES), iter(text.splitlines(keepends=True)))) == clean(text)


# --- planted secrets -----------------------------------------------------------------------------------------------------------------

ALNUM = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def _made(prefix: str, alphabet: str = ALNUM, low: int = 20, high: int = 40) -> st.SearchStrategy[str]:
    # The digit, then a letter, keep what is made from being a word, or a number.
    return st.text(alphabet, min_size=low - 3, max_size=high - 3).map(lambda text: f"{prefix}{text}7aZ")


SHAPES = st.one_of(
    _made("hf_", low=34, high=37),
    _made("sk-", low=48, high=51),
    _made("sk-proj-", ALNUM + "_-", 60, 150),
    _made("sk-ant-api03-", ALNUM + "_-", 80, 100),
    _made("ghp_", low=36, high=36),
    _made("github_pat_", ALNUM + "_", 60, 82),
    _made("glpat-", ALNUM + "_-", 20, 20),
    _made("xoxb-1234567890-", low=24, high=24),
    _made("AIza", ALNUM + "_-", 35, 35),
    _made("nvapi-", ALNUM + "_-", 60, 64),
    _made("r8_", low=37, high=37),
    _made("dckr_pat_", ALNUM + "_-", 27, 27),
    _made("LTAI5t", low=18, high=18),
    st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", min_size=16, max_size=16).map(lambda text: f"AKIA{text}"),
    st.builds("eyJ{}.eyJ{}.{}".format, _made("hbGci"), _made("zdWIi"), _made("", ALNUM + "_-")),
)
VALUES = st.text(ALNUM + "_+/.~-", min_size=5, max_size=60).map(lambda text: f"q{text}9Z")

AROUND_A_SHAPE = [
    "INFO 11-29 16:30:58 [hub.py:7] using {} for download",
    "docker run -e HF_TOKEN={} image",
    "export API_KEY={}",
    '{{"env": {{"OPENAI_API_KEY": "{}"}}}}',
    "Namespace(api_key='{}', port=8000)",
    "non-default args: {{'api_key': ['{}'], 'port': 8011}}",
    "https://{}@example.com/x",
    "https://example.com/x?token={}&n=1",
    'curl -H "Authorization: Bearer {}" http://localhost:8000',
    "vllm serve m --hf-token {} --port 8000",
    "{}",
    "\x1b[36m{}\x1b[0m",
    "({})",
    "<{}>",
    "key:{},",
]
AROUND_A_VALUE = [
    "HF_TOKEN={}",
    "environ({{'HF_TOKEN': '{}', 'HOME': '/root'}})",
    'declare -x AWS_SECRET_ACCESS_KEY="{}"',
    '{{"DB_PASSWORD": "{}"}}',
    "vllm serve m --api-key {} --port 8000",
    "vllm serve m --api-key={}",
    'args: ["--hf-token", "{}"]',
    "api_key='{}'",
    "'api_key': ['{}']",
    "ssl_keyfile_password='{}', port=1",
    "Authorization: Bearer {}",
    "{{'authorization': 'Bearer {}'}}",
    "(b'authorization', b'Bearer {}')",
    "password={}",
    '{{\\"client_secret\\": \\"{}\\"}}',
]


@given(st.sampled_from(AROUND_A_SHAPE), SHAPES)
@settings(max_examples=300, deadline=None)
def test_no_token_of_a_known_shape_is_left(around: str, secret: str) -> None:
    got = clean(around.format(secret))
    assert secret not in got
    assert secret[6:] not in got
    assert clean(got) == got


@given(st.sampled_from(AROUND_A_VALUE), VALUES)
@settings(max_examples=300, deadline=None)
@example("HF_TOKEN={}", "q/a/b.c9Z")
def test_no_value_of_a_telling_name_is_left(around: str, secret: str) -> None:
    got = clean(around.format(secret))
    assert secret not in got
    assert clean(got) == got
    assert len(got) <= len(around.format("<token-1>"))  # nothing of the value is left beside the stand-in


AROUND_AN_ADDRESS = ["{}", "tcp://[{}]:29500", "(RayWorkerWrapper pid=7, ip={}) x", "host={}, port=1", "at {}.", "'{}'"]


@given(st.ip_addresses(), st.sampled_from(AROUND_AN_ADDRESS))
@settings(max_examples=300, deadline=None)
@example(ipaddress.ip_address("0.9.0.1"), "{}")
@example(ipaddress.ip_address("1:2::3"), "{}")
@example(ipaddress.ip_address("::ffff:0:0"), "{}")
@example(ipaddress.ip_address("::ffff:ffff:fffa"), "{}")
def test_addresses(address: ipaddress.IPv4Address | ipaddress.IPv6Address, around: str) -> None:
    text = str(address)
    got = clean(around.format(text))
    if address.is_loopback or address.is_unspecified or (address.version == 4 and text.startswith("0.")):
        assert got == around.format(text)
    elif text.startswith("255."):
        assert got in (around.format(text), around.format("<ip-1>"))  # the masks among them stay
    elif address.version == 4 or text.count(":") > 3:  # shorter ones are names in C++ as well
        assert got == around.format("<ip-1>")


@given(st.text(max_size=80).map(repr), st.lists(st.integers(0, 200_000), min_size=1, max_size=20))
@settings(max_examples=200, deadline=None)
def test_prompts_and_token_ids_are_dropped_and_parameters_stay(prompt: str, ids: list[int]) -> None:
    line = (
        f"INFO 11-29 16:30:58 [logger.py:39] Received request cmpl-1-0: prompt: {prompt}, params: SamplingParams(n=1, "
        f"stop_token_ids=[], max_tokens=30), prompt_token_ids: {ids}, lora_request: None, prompt_adapter_request: None."
    )
    dropped = f"<prompt dropped, {len(prompt)} characters>" if prompt not in ("''", '""') else prompt
    if prompt[1:2] == "<":
        return  # a stand-in that somebody wrote, like '<8190 tokens>', may stay
    assert clean(line) == (
        f"INFO 11-29 16:30:58 [logger.py:39] Received request cmpl-1-0: prompt: {dropped}, params: SamplingParams(n=1, "
        f"stop_token_ids=[], max_tokens=30), prompt_token_ids: <prompt dropped, {len(str(ids))} characters>, lora_request: None, "
        "prompt_adapter_request: None."
    )


@given(st.text(min_size=1, max_size=80), st.booleans())
@settings(max_examples=200, deadline=None)
def test_messages_are_dropped(text: str, ascii_only: bool) -> None:
    body = json.dumps({"role": "user", "content": "Q " + text, "max_tokens": 7}, ensure_ascii=ascii_only)
    got = clean(body.replace("\n", " "))
    assert got.startswith('{"role": "user", "content": <prompt dropped, ')
    assert got.endswith(' characters>, "max_tokens": 7}')


# --- laws ----------------------------------------------------------------------------------------------------------------------------

#: Pieces that rules begin and end with, so that chance makes what they look at.
PIECES = st.one_of(
    st.sampled_from(
        [
            "10.0.0.1", "127.0.0.1", "2001:db8::1", "::", "api_key=", "api_key='", "'", '"', "--api-key ", "HF_TOKEN=", "PASSWORD: ",
            "Bearer ", "Authorization: ", "https://", "a:b@", "x@example.com", "/home/", "alice", "/", "\\", "C:\\Users\\", "@", ":~$ ",
            "prompt: '", "prompt_token_ids: [", "1, 2]", '"content": "', "hf_abcdefghijklmnopqrstuvwxyzabcdefgh", "sk-", "<ip-1>",
            "<token-1>", "<user-2>", "<prompt dropped, 3 characters>", "<", ">", " ", ",", "\n", "\x1b[0m", "\\n", "[", "]", "=", "a", "7",
            "\t", "ssh ", "?token=", "&", "eyJhbGciOiJI.eyJzdWIi.x", "wandb login ", "AccountKey=", "{", "}", ".", "-",
        ]
    ),
    st.text(max_size=3),
)  # fmt: skip
#: What telling names are made of, and what stands between a name and its value.
NAMES = [
    "HF_", "hf_", "api_", "API", "TOKEN", "token", "KEY", "key", "keys", "SECRET", "password", "PASSWD", "credentials", "AUTH", "_PAT",
    "_id", "_PATH", "None", "none1", "False", "falsehood", "no", ": ", " = ", "'] = ", "']", "[", "(", "tensor(", "input_ids", "_token_ids",
    "prompt", "output", "content", "text", "'", '\\"', "b'", "127.", "12.", "0.", "1", "fe80::", ":", "ab", "--", "http://", "curl", " -u ", "é", "的",
]  # fmt: skip
TEXTS = st.lists(PIECES, max_size=25).map("".join)


@given(TEXTS)
@settings(max_examples=600, deadline=None)
def test_what_is_clean_stays_as_it_is(text: str) -> None:
    once = clean(text)
    assert clean(once) == once


@given(TEXTS)
@settings(max_examples=400, deadline=None)
def test_a_text_is_cleaned_line_by_line(text: str) -> None:
    redactor = Redactor(RULES)
    assert "\n".join(redactor.clean(line) for line in text.split("\n")) == clean(text)


@given(TEXTS)
@settings(max_examples=200, deadline=None)
def test_the_number_of_lines_stays(text: str) -> None:
    assert clean(text).count("\n") == text.count("\n")


@given(st.lists(st.one_of(PIECES, SHAPES, st.sampled_from(AROUND_A_VALUE), st.sampled_from(NAMES)), max_size=12).map("".join))
@settings(max_examples=1500, deadline=None)
@example((FIXTURES / "dirty.txt").read_text(encoding="utf-8"))
@example("n".join(example["line"] for rule in RULES for example in rule.examples))
@example("api_key=n")
@example("HF_TOKENS: 'abcd' tOKEN=f auth_token: nones1 'secret'] = \"no\" passwd=Falsehood")
@example("req_id=a,prompt_token_ids=[[], [1]] all_token_ids=tensor([1]) token_ids: (1, 2) input_ids: [[")
def test_a_gate_lets_in_whatever_its_rule_finds(text: str) -> None:
    for line in text.split("\n"):
        let_in = {place for _, _, places in INDEX.lines(line.encode("utf-8", "surrogatepass")) for place in places}
        found = {place for place, rule in enumerate(INDEX.rules) if any(begin < end for begin, end in rule.find(line))}
        assert found <= let_in, [RULES[place].id for place in found - let_in]


# --- time ----------------------------------------------------------------------------------------------------------------------------

HOSTILE = [
    ":", "a:", "1.", "1:2::", "10.1.1.1 ", "prompt: '", 'prompt: "\\', "a@", "a.b@", "://", "://a:", "://a@", "eyJ", "eyJaaaaaaaa.",
    "A_KEY_", "AKEY", "KEY ", "authorization: ", "--a-", "--api-key ", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY", "curl -u ",
    "ssh -a b ", '"content": "', '"content": \\"', "secret=", 'secret="a', "token_ids=[", "token_ids=[[1],", "/home/", "C:\\Users\\",
    "mbp-", "a-macbook", "version ", "nvidia-", "nvidia1 ", "wandb: ", "?a_token=", "?a_", "bearer a1aaaaaaa ", "cookie: a; b=c; ",
    "api_key=['a',", "xoxb-", "sk-", "<ip-1>", "<ip-1", "key='", "a.b/", "A", "\x1b[1;", "\\", "^[[", "2001:db8::1 ", "HF_TOKEN=a,",
    "password: a", "x@y.z ", "ip-1-2-3-", "::ffff:1.2.3.4",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_time_grows_with_the_length(piece: str) -> None:
    """Eight times the text may take three times eight times as long; what grows with the square would take 64 times."""
    small, large = (piece * (size // len(piece)) for size in (8_000, 64_000))
    for tries in count(1):
        took = [_seconds(small), _seconds(large)]
        if took[1] < 24 * took[0] + 0.05:
            break
        assert tries < 4, took


def _seconds(text: str) -> float:
    redactor = Redactor(RULES)
    redactor.clean(text[:100])  # compiled before the watch starts
    begin = time.process_time()
    redactor.clean(text)
    return time.process_time() - begin


def test_speed_on_ordinary_lines() -> None:
    """Ten times what it takes on a slow machine, so that only a rule without a gate trips it."""
    line = (
        "(EngineCore_DP0 pid=271) INFO 07-24 08:12:44 [gpu_worker.py:298] Available KV cache memory: 5.86 GiB, the model took "
        "14.99 GiB and 12.3 seconds, Avg prompt throughput: 12.0 tokens/s, Running: 2 reqs"
    )
    redactor = Redactor(RULES)
    redactor.clean(line)
    begin = time.process_time()
    for _ in range(1000):
        redactor.clean(line)
    assert (time.process_time() - begin) / 1000 < 200e-6


# --- the checker ---------------------------------------------------------------------------------------------------------------------

GOOD = """
- id: a
  kind: token
  anchors: [abcd]
  match: 'abcd[^\\n]'
  text: {en: a, zh: 甲}
  examples: [{line: abcde, clean: <token-1>}]
"""


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("[^\\n]'", "\\s'", "matches a line break"),
        ("[^\\n]'", "[^a]'", "matches a line break"),
        ("[^\\n]'", "(' ", "no regular expression"),
        ("  anchors: [abcd]\n", "  gate: 'a(?<=a)b'\n", "no expression of hyperscan"),
        ("  anchors: [abcd]\n", "", "would be tried on every line"),
        ("  anchors: [abcd]\n", "  anchors: ['*']\n", "an anchor is literal text"),
        ("  kind: token\n", "  kind: token\n  group: value\n", "which «match» does not have"),
        ("  kind: token\n", "  kind: token\n  until: x\n", "«until» needs «each»"),
        ("  kind: token\n", "  kind: token\n  colour: red\n", "unknown key"),
        ("examples: [{line: abcde, clean: <token-1>}]", "examples: []", "«examples» must be"),
        ("text: {en: a, zh: 甲}", "text: {en: a}", "needs en and zh"),
    ],
)
def test_mistakes_in_a_rule_are_named(old: str, new: str, reason: str) -> None:
    assert old in GOOD
    with pytest.raises(LibraryError, match=reason.replace("(", r"\(")):
        _rules(GOOD.replace(old, new).encode())


def test_a_good_rule_is_taken() -> None:
    assert Redactor(_rules(GOOD.encode())).clean("x abcde") == "x <token-1>"


def test_without_rules_nothing_happens() -> None:
    assert Redactor([]).clean("10.0.0.1 <ip-1>") == "10.0.0.1 <ip-1>"
