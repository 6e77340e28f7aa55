"""What the leakage gate looks for in names and text; domain.leakage.checks says how it is reported."""

import re
from collections.abc import Mapping

# Facts section 3: parts of a field's path, read without case, separators or invisible characters.
FORBIDDEN_PARTS = (
    "heldout_answer",
    "expected_answer",
    "evaluation_report",
    "evaluator_trace",
    "rollout_transcript",
    "teacher_completion",
    "workspace_path",
    "correction_text",
)
# Whole field names that the reference lets through (docs/rules.md).
FORBIDDEN_NAMES = (
    "answer",
    "answers",
    "gold",
    "gold_answer",
    "gold_label",
    "ground_truth",
    "trajectory",
    "trajectories",
    "solution",
)
# A flag that says "not included" may name what is not included, as long as it is false.
FLAG_ENDINGS = ("_included", "_used")

SECRETS: Mapping[str, re.Pattern[str]] = {
    "private key": re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY"),
    "bearer token": re.compile(r"\bbearer\s+[A-Za-z0-9._~+/=-]{12,}", re.IGNORECASE),
    "cloud access key": re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{35}"),
    "service token": re.compile(r"\b(?:sk-|ghp_|gho_|ghs_|github_pat_|glpat-|hf_|pypi-|xox[abprs]-)[\w-]{16,}"),
    "web token": re.compile(r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"),
    "credential": re.compile(
        r"\b(?:password|passwd|secret|api[_-]?key|access[_-]?token|auth[_-]?token)[\"']?\s*[:=]\s*[\"']?[^\s\"',;]{8,}",
        re.IGNORECASE,
    ),
    "credentials in an address": re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/:@]+:[^\s/@]+@", re.IGNORECASE),
}
_ROOTS = (
    "bin|boot|data|dev|etc|gpfs|home|lib|localhome|lustre|media|mnt|nfs|opt|private|proc|root|run|sbin|scratch|srv|sys"
    "|tmp|usr|var|workspace|Applications|Library|System|Users|Volumes"
)
PATHS: Mapping[str, re.Pattern[str]] = {
    # Not inside a relative path, an address or a closing tag. After a bracket a slash may divide, so that a single
    # segment or an unknown first one does not count there.
    "absolute path": re.compile(
        rf"(?<![\w./~<])/(?:{_ROOTS})/[\w.+-]|(?<![\w./~<*)\]}}])/(?:[A-Za-z_.][\w.+-]*/[\w.+-]|(?:{_ROOTS})(?![\w-]))"
    ),
    "Windows path": re.compile(r"(?<![A-Za-z0-9])[A-Za-z]:[\\/]{1,2}[\w.$%-]"),
    "network share": re.compile(r"(?<!\\)\\\\[A-Za-z][\w.-]{2,}\\[A-Za-z]"),
    "file address": re.compile(r"\bfile:/", re.IGNORECASE),
    "home path": re.compile(r"(?<![\w~])~[\w-]*/[\w.]|\$\{?HOME\b|%(?:USERPROFILE|APPDATA|HOMEPATH)%", re.IGNORECASE),
}
# Facts section 3, tool protocol: marks of chat templates and tool calls that a prompt could smuggle in.
MARKERS: Mapping[str, re.Pattern[str]] = {
    "tool tag": re.compile(r"<\s*/?\s*(?:tool|function)[\w:=-]*", re.IGNORECASE),
    "template mark": re.compile(
        r"<\|[^|\s<>]{1,40}\|>|\[/?(?:TOOL_CALLS|AVAILABLE_TOOLS|TOOL_RESULTS|INST)\]", re.IGNORECASE
    ),
}
# A statement of what the right answer is. What only says of what form an answer is, or that there is none, is left alone.
ANSWERS: Mapping[str, re.Pattern[str]] = {
    "answer in prose": re.compile(
        r"\b(?:gold(?:en)?|ground[- ]?truth|correct|right|true|expected|reference|held[- ]?out|hidden)[\s_-]+"
        r"(?:answer|label|class|diagnosis|option|finding|verdict|response|solution|grade)s?"
        r"(?:[\s_-]+(?:for|of|to|in)\b[^.;:=\n]{1,60}?)?\s*(?:\b(?:is|are|was|were|reads|says)\b|[:=])\s*[\"'(\[]?"
        r"(?!(?:one|any|some|either|not|never|no|none|kept|hidden|stored|unknown|given|written|read|made|compared|in|from|"
        r"to|what|which|that|those|whatever|scored|checked|graded|computed|derived|your|each)\b"
        r"|(?:an?|the)\s+(?:one|same|value|name|file|letter|word|number|string|choice|option|class|list|path|json)\b)[\w+-]",
        re.IGNORECASE,
    ),
}
# A line that may begin what the next one ends.
OPEN_END = re.compile(
    r"(?:\b(?:bearer|password|passwd|secret|token|key|answer|label|diagnosis|is|are|was)|[:=\"'<(/\\|-])[\"']?\s*$",
    re.IGNORECASE,
)
# What a line must hold, in lower case, for one of a kind's patterns to match: spares most lines the patterns.
NEEDLES: Mapping[str, tuple[str, ...]] = {
    "secrets": (
        "-----begin", "bearer", "akia", "asia", "aiza", "sk-", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "hf_", "pypi-",
        "xox", "eyj", "passw", "secret", "key", "token", "://",
    ),
    "absolute_paths": ("/", "\\", "~", "$", "%"),
    "protocol_markers": ("<", "["),
    "answers_in_prose": (
        "answer", "label", "class", "diagnosis", "option", "finding", "verdict", "response", "solution", "grade",
    ),
}  # fmt: skip
