"""What the bot says of its own, in both languages. The report's words are the report's."""

from __future__ import annotations

from analyzer.model import Text

READING = Text("Reading the log…", "正在读取日志……")
FULL_REPORT = Text("Full report", "完整报告")
#: The button says the other language's own name.
OTHER_LANGUAGE = Text("中文", "English")
HELPED = Text("This helped", "有帮助")
WRONG = Text("This is wrong", "结论不对")
DELETE = Text("Delete", "删除")
DELETE_TITLE = Text("Delete this analysis?", "删除这次分析？")
DELETE_TEXT = Text(
    "The report, its stored (redacted) inputs and this answer are deleted. Your own messages stay.",
    "报告、已存储的（脱敏后的）输入以及这条回复都会被删除。你自己的消息会保留。",
)
CANCEL = Text("Cancel", "取消")
FIXES = Text("What to change", "怎么改")
COST = Text("Cost:", "代价：")
UNVERIFIED = Text("(not verified against this log)", "（未能用这份日志验证）")
COMMAND = Text("Your command, changed:", "修改后的命令：")
COMMAND_LONG = Text(
    "Your command, changed, is too long for Slack; it is in the full report.", "修改后的命令太长，Slack 放不下，请看完整报告。"
)
NEEDS = Text("To be surer, add to this thread:", "要更确定，请在这个消息列里补充：")
MORE_FIXES = Text("{count} more in the full report.", "完整报告里还有 {count} 条。")
PICTURE_ALT = Text("Memory ledger", "显存账本")
CUT_MESSAGE = Text(
    "Slack cut the message, so its end is missing. Drop the log as a file to have all of it read.",
    "消息被 Slack 截断，末尾缺失。把日志作为文件拖进来，就能完整读取。",
)
NOTHING_TO_READ = Text(
    "There is no log here that I can read. Paste what the server printed (from its start on), or drop the log as a file, in this thread.",
    "这里没有可以读取的日志。请把服务启动以来的输出贴到这个消息列里，或者把日志作为文件拖进来。",
)
NOT_READ = Text("Not read:", "未读取：")
NOTHING_NEW = Text(
    "Nothing new to read in this thread since the report above. What it still asks for stands at its end.",
    "自上面的报告以来，这个消息列里没有新的内容可读。还需要什么，写在报告末尾。",
)
OUR_MISTAKE = Text(
    "This input cannot be analysed, which is our mistake ({kind}). Nothing of it was stored.",
    "这份输入无法分析，这是我们的错误（{kind}）。没有存储任何内容。",
)
DELETED = Text("Deleted, inputs included.", "已删除，包括所有输入。")
GONE = Text("This analysis is gone: it was deleted, or its time was over.", "这次分析已经不在了：被删除，或者已经过期。")
NOT_YOURS = Text("Only who asked for this analysis may delete it: <@{user}>.", "只有发起这次分析的人可以删除：<@{user}>。")
THANKS = Text("Thank you, noted.", "谢谢，已记录。")
THANKS_WRONG = Text(
    "Thank you, noted. If you know what it was, write it into this thread: it helps whoever reads it next.",
    "谢谢，已记录。如果你知道真正的原因，请写在这个消息列里，对后来的人有帮助。",
)
NOT_HERE = Text(
    "I cannot write into this conversation. Invite me first (`/invite @…`), or send me the log in a direct message.",
    "我无法在这个会话里发言。请先邀请我（`/invite @…`），或者把日志私信发给我。",
)
NO_TRIGGER = Text(
    "Slack gave up waiting for the form. Type the command again, or mention me with the log.",
    "Slack 没有等到表单弹出。请重新输入命令，或者贴上日志并 @ 我。",
)
FORM_TITLE = Text("Diagnose a log", "诊断日志")
FORM_SUBMIT = Text("Diagnose", "诊断")
FORM_LABEL = Text("What the server printed", "服务的输出")
FORM_HINT = Text(
    "Up to 3,000 characters. A longer log: drop it as a file and mention me. The answer goes to this channel.",
    "最多 3000 个字符。更长的日志请作为文件拖进频道并 @ 我。回复会发到当前频道。",
)
ASKED = Text("<@{user}> asked about a log.", "<@{user}> 请求诊断一份日志。")
WATCH_ON = Text(
    "I watch this channel now: a message that is certain to be a known failure gets an answer in its thread, nothing else does.",
    "我开始留意这个频道：只有能确定是已知故障的消息，才会在其消息列里收到回复。",
)
WATCH_OFF = Text(
    "I no longer watch this channel. A mention or a dropped log is still answered.", "我不再留意这个频道。@ 我或者拖入日志仍然会得到回复。"
)
RECENT_NONE = Text("Nothing has been analysed in this channel yet.", "这个频道还没有分析记录。")
USAGE = Text(
    "Mention me with the log, drop it as a file, send it to me directly, or use *Diagnose* in a message's menu. "
    "`{command}` opens a form; `{command} <text>` reads the text; `{command} watch on|off` switches watching this channel; "
    "`{command} recent` lists this channel's newest analyses. "
    "Tokens, keys, addresses, user names and prompts are removed before anything is stored.",
    "贴上日志并 @ 我，或者把日志作为文件拖进来，或者私信发给我，或者在消息菜单里选 *Diagnose*。"
    "`{command}` 打开表单；`{command} <文本>` 直接分析这段文本；`{command} watch on|off` 打开或关闭对本频道的留意；"
    "`{command} recent` 列出本频道最近的分析。令牌、密钥、地址、用户名和提示词在存储之前就会被删除。",
)
