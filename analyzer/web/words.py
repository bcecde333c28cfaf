"""The words of the pages, in both languages. Words of patterns, causes and advice live in the library's own files."""

from __future__ import annotations

from analyzer.model import Text

WORDS: dict[str, Text] = {
    "tagline": Text(
        "The log of a dead LLM server in, the cause, the memory ledger and computed fixes out.",
        "贴入崩溃的大模型服务日志，得到根因、显存账本和算好的修复方案。",
    ),
    "paste": Text("Paste the log here", "把日志粘贴到这里"),
    "paste_hint": Text(
        "What the server printed, from its start on. nvidia-smi, dmesg and the launch command may stand in it or come as files.",
        "从启动开始的全部输出。nvidia-smi、dmesg、启动命令可以贴在一起，也可以作为文件上传。",
    ),
    "files": Text("or choose files", "或选择文件"),
    "files_hint": Text(
        "Logs, nvidia-smi dumps, config.json; gzip and zstd too.", "日志、nvidia-smi 输出、config.json；支持 gzip 和 zstd。"
    ),
    "analyse": Text("Analyse", "分析"),
    "redacted": Text(
        "Tokens, keys, addresses, user names and prompts are removed before anything is stored.",
        "令牌、密钥、地址、用户名和提示词在存储之前就会被删除。",
    ),
    "from_terminal": Text("From a terminal", "在终端中"),
    "history": Text("History", "历史"),
    "patterns": Text("Patterns", "模式库"),
    "api": Text("API", "API"),
    "limits": Text("Limits", "限制"),
    "deleted": Text("Deleted, inputs included.", "已删除，包括所有输入。"),
    "delete": Text("Delete this analysis", "删除这次分析"),
    "add": Text("Add an input", "补充输入"),
    "add_hint": Text("Everything is analysed again together, under the same link.", "会和已有输入一起重新分析，链接不变。"),
    "ledger": Text("Memory", "显存账本"),
    "gpu": Text("GPU", "GPU"),
    "at": Text("at", "阶段："),
    "what_to_change": Text("What to change", "怎么改"),
    "your_command": Text("Your command, changed", "修改后的命令"),
    "not_this": Text("Not this", "这些没有用"),
    "proof": Text("Proof", "证据"),
    "to_be_surer": Text("To be surer", "要更确定，还需要"),
    "other_findings": Text("Also seen", "另外还看到"),
    "inputs": Text("Inputs", "输入"),
    "attempts": Text("Start attempts", "启动尝试"),
    "line": Text("line", "行"),
    "lines": Text("lines", "行"),
    "truncated": Text("cut short", "被截断"),
    "as": Text("As", "其他格式"),
    "cost": Text("Cost", "代价"),
    "unverified": Text("not verified: a figure is missing", "未验证：缺少数据"),
    "remove_flag": Text("remove", "去掉"),
    "state_failed": Text("FAILED", "失败"),
    "state_healthy": Text("HEALTHY", "正常"),
    "state_degraded": Text("DEGRADED", "性能下降"),
    "state_unknown": Text("NOT DECIDED", "尚无定论"),
    "conf_certain": Text("certain", "确定"),
    "conf_likely": Text("likely", "很可能"),
    "conf_possible": Text("possible", "可能"),
    "basis_measured": Text("measured", "日志给出"),
    "basis_derived": Text("derived", "推算"),
    "basis_estimated": Text("estimated", "估计"),
    "no_cause": Text("no cause shown", "未显示原因"),
    "search": Text("Search", "搜索"),
    "cause": Text("Cause", "原因"),
    "engine": Text("Engine", "引擎"),
    "when": Text("When (UTC)", "时间（UTC）"),
    "nothing_yet": Text("Nothing here yet.", "还没有记录。"),
    "older": Text("Older", "更早的"),
    "not_done": Text("This analysis is not done", "这次分析尚未完成"),
    "versions": Text("Versions", "版本"),
    "topic": Text("Topic", "主题"),
    "matches": Text("Matches", "匹配"),
    "facts": Text("Reads", "读取的数据"),
    "examples": Text("Examples", "示例"),
    "not_examples": Text("Looks alike and is not meant", "相似但不匹配"),
    "fixes": Text("Suggests", "建议"),
    "everyone": Text("every engine", "所有引擎"),
    "back": Text("Back", "返回"),
    "call": Text("Call", "调用"),
    "does": Text("Does", "作用"),
}


class Words:
    """The words of one language: ``words.paste`` in a template. A word that there is none of is an error, not a gap."""

    def __init__(self, language: str) -> None:
        self._language = language

    def __getattr__(self, name: str) -> str:
        try:
            return WORDS[name].get(self._language)
        except KeyError:
            raise AttributeError(f"no word {name!r}") from None

    def state(self, name: str) -> str:
        return str(getattr(self, f"state_{name}"))

    def confidence(self, name: str) -> str:
        return str(getattr(self, f"conf_{name}"))

    def basis(self, name: str) -> str:
        return str(getattr(self, f"basis_{name}"))
