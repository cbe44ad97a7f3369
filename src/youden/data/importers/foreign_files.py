"""Find, decode and parse the files of other tools, and derive unique names from their paths.

Every error starts with the location of the problem: the file and, if known, its line.
"""

from __future__ import annotations

import codecs
import fnmatch
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from youden.data.pools.spool import format_excerpt
from youden.errors import ImportFormatError
from youden.text.json_text import MAX_DEPTH, JSONDecodeError, is_nested_deeper, replace_nonfinite, replace_surrogates
from youden.text.json_text import parse_json as parse_tolerantly
from youden.text.regular_files import find_special_kind, read_regular
from youden.text.replacements import Replacements
from youden.text.sentences import format_count
from youden.types.pool import Json

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SURROGATE = re.compile("[\ud800-\udfff]")


MAX_DROPPED = 0.01
"""Fraction of the responses or battles that an import may lose unless the user allows more."""


def import_error(location: Path | str, problem: str, *, slug: str) -> ImportFormatError:
    """Return an error whose message starts with the location of the problem.

    location : file, or file and line
    problem : sentences that state the problem and how to solve it
    slug : stable name of the error

    Returns the error, to be raised by the caller.
    """
    return ImportFormatError(f"{location}: {problem}", slug=slug)


def find_files(paths: Sequence[Path], patterns: Sequence[str], *, expected_kind: str) -> list[Path]:
    """List the given files, and those files in the given folders that match a pattern.

    paths : files, which may have any name, and folders, which are searched at any depth
    patterns : glob patterns for the names of files in folders, for example "*.json"; upper and lower case are equal
    expected_kind : expected kind of file, for messages, for example "an Inspect log"

    Returns the paths in the order of `paths`; files of one folder are sorted by path. A path is listed only once,
    even if it is given as a relative and as an absolute path. Two links to one file count as different paths.

    Raises: ImportFormatError [import-not-found] if a path does not exist or is a special file; [import-empty] if a folder has
        no matching file.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += _find_files_in_folder(path, patterns, expected_kind=expected_kind)
        elif path.is_file():
            files.append(path)
        else:
            kind = find_special_kind(path)
            problem = f"it is {kind}, not a file" if kind else "there is no such file or folder"
            raise import_error(path, f"{problem}. Pass {expected_kind}.", slug="import-not-found")
    by_absolute_path: dict[str, Path] = {}  # in order, with the first form of each path
    for file in files:
        by_absolute_path.setdefault(os.path.abspath(file), file)
    return list(by_absolute_path.values())


def _find_files_in_folder(folder: Path, patterns: Sequence[str], *, expected_kind: str) -> list[Path]:
    """Find the files in a folder and its subfolders whose names match at least one of several patterns.

    folder : folder that is searched at any depth
    patterns : glob patterns, such as "*.json", for the names of files; upper and lower case are not distinguished
    expected_kind : expected kind of file for the error message, such as "an Inspect log"

    Returns the paths of the files, sorted.

    Raises: ImportFormatError [import-empty] if no file matches.
    """
    # one regular expression that matches what any of the patterns matches
    any_pattern = re.compile("|".join(fnmatch.translate(pattern.lower()) for pattern in patterns))
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    matches = [path for path in files if any_pattern.fullmatch(path.name.lower())]
    if not matches:
        other_files = format_count(len(files), "other file")
        problem = f"this folder has no file that matches {', '.join(patterns)}: got {other_files}"
        remedy = f"Pass {expected_kind}, or a folder that contains one."
        raise import_error(folder, f"{problem}. {remedy}", slug="import-empty")
    return matches


def read_text(path: Path, replaced: Replacements | None = None) -> str:
    """Read a text file in UTF-8, or in the encoding of its byte order mark.

    path : the file
    replaced : counts the unpaired surrogates (half characters that are not valid text), which become U+FFFD

    Returns the text, without a byte order mark.

    Raises: ImportFormatError [import-encoding] if the file cannot be decoded, with line and byte; [import-not-found] if it
        cannot be read.
    """
    try:
        raw = read_regular(path)
    except OSError as error:
        raise import_error(
            path, f"it cannot be read ({error.strerror}). Check the path.", slug="import-not-found"
        ) from error

    raw, encoding = _remove_byte_order_mark(raw)
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        text = _decode_surrogates(raw, encoding)
        if text is None:
            line = raw[: error.start].count(b"\n") + 1
            raise import_error(
                f"{path}, line {line}",
                f"byte 0x{raw[error.start]:02x} is not {encoding.upper()}. Save the file as UTF-8.",
                slug="import-encoding",
            ) from error
    if replaced is not None:
        replaced.add(n_texts=len(_SURROGATE.findall(text)), location=path)
    return replace_surrogates(text)


def _decode_surrogates(raw: bytes, encoding: str) -> str | None:
    """Decode a text with unpaired surrogates, which are kept; None if it cannot be decoded."""
    try:
        return raw.decode(encoding, "surrogatepass")
    except UnicodeDecodeError:
        return None


def _remove_byte_order_mark(raw: bytes) -> tuple[bytes, str]:
    """Return the bytes of a text without byte order mark, and the encoding that this mark states; UTF-8 without one."""
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return raw.removeprefix(mark), encoding
    return raw, "utf-8"


def read_json(path: Path, replaced: Replacements | None = None) -> Json:
    """Read a file that holds one JSON value.

    path : the file
    replaced : counts the values that were replaced: NaN and infinities by None, unpaired surrogates by U+FFFD

    Returns the parsed value.

    Raises: ImportFormatError [import-json] if the file is not JSON or nested too deeply; [import-encoding] or
        [import-not-found] if it cannot be read.
    """
    return parse_json(read_text(path, replaced), path, replaced)


def parse_json(
    text: str | bytes,
    location: Path | str,
    replaced: Replacements | None = None,
    *,
    remedy: str = "Pass the file as the tool wrote it",
) -> Json:
    """Parse one JSON value.

    text : the JSON; bytes are decoded as UTF-8, and a byte order mark is ignored
    location : file, or file and line, for the beginning of error messages
    replaced : counts the values that were replaced: NaN and infinities by None, unpaired surrogates by U+FFFD. Default: they
        are replaced, but not counted.
    remedy : sentence, without a full stop, for the end of error messages

    Returns the parsed value.

    Raises: ImportFormatError [import-json] if the text is not JSON, has an object with the same key twice, or is nested more
        than 200 deep; [import-encoding] if the bytes are not UTF-8.
    """
    decoded = text if isinstance(text, str) else _decode_utf8(text, location, remedy)
    try:
        parsed = parse_tolerantly(decoded)
    except JSONDecodeError as error:
        position = f"column {error.colno}" if "\n" not in decoded else f"line {error.lineno}, column {error.colno}"
        raise import_error(
            location, f"it is not JSON ({error.msg}, {position}). {remedy}.", slug="import-json"
        ) from error

    # Counting brackets is cheap, and rules out deep nesting for almost every text.
    n_brackets = decoded.count("[") + decoded.count("{")
    if n_brackets > MAX_DEPTH and is_nested_deeper(parsed.value, MAX_DEPTH):
        raise import_error(
            location, f"its lists and objects are nested more than {MAX_DEPTH} deep. {remedy}.", slug="import-json"
        )

    if replaced is not None:
        replaced.add(n_nonfinite=parsed.n_nonfinite, n_texts=parsed.n_replaced_texts, location=location)
    value: Json = replace_nonfinite(parsed.value) if parsed.n_nonfinite else parsed.value
    return value


def _decode_utf8(raw: bytes, location: Path | str, remedy: str) -> str:
    """Decode UTF-8; raise ImportFormatError [import-encoding], with the sentence `remedy`, for other bytes."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise import_error(
            location,
            f"byte 0x{raw[error.start]:02x} at position {error.start + 1} is not UTF-8. {remedy}.",
            slug="import-encoding",
        ) from error


def read_lines(path: Path, replaced: Replacements | None = None) -> Iterator[tuple[str, dict[str, Json]]]:
    """Read the objects in a JSON Lines file, with their locations.

    Parameters
    ----------
    path : Path
    replaced : Replacements, optional
        Counts the values that were replaced: NaN and infinities by None, unpaired surrogates by U+FFFD.

    Yields
    ------
    location : str
        File and line number, for error messages.
    row : dict
        Object of a line that is not blank.

    Raises
    ------
    ImportFormatError
        [import-json] or [import-format] if a line is not a JSON object; [import-encoding] or [import-not-found] if the
        file cannot be read.
    """
    yield from parse_lines(read_text(path, replaced), path, replaced)


def parse_lines(text: str, path: Path, replaced: Replacements | None = None) -> Iterator[tuple[str, dict[str, Json]]]:
    """Parse the objects in a text in JSON Lines (one object per line); blank lines are skipped.

    text : content of the file
    path : path of the file, for locations and errors; it is not read
    replaced : counts the values that were replaced: NaN and infinities by None, unpaired surrogates by U+FFFD. Default: they
        are replaced, but not counted.

    Yields the location of each object (the file and the line, from 1), for error messages, and the object.

    Raises: ImportFormatError [import-json] if a line is not JSON; [import-format] if it is not an object. The error is raised
        when the line is reached.
    """
    for number, line in enumerate(text.split("\n"), 1):
        if line and not line.isspace():
            location = f"{path}, line {number}"
            value = parse_json(line, location, replaced, remedy="Write one object per line")
            if isinstance(value, list):
                problem = (
                    "it is a list, not an object. Write one object per line, or rename a file with one list to .json."
                )
                raise import_error(location, problem, slug="import-format")
            yield location, require_object(value, location)


MAX_ERROR_LENGTH = 160
"""Maximum number of characters quoted from the error message of another tool."""


def format_tool_error(error: Json) -> str:
    """Format the first line of an error message of another tool as ": MESSAGE"; return "" if there is no message.

    >>> format_tool_error({"message": "429: slow down\\n…"}), format_tool_error(None)
    (': 429: slow down', '')
    """
    message = get_nested(error, "message") or get_nested(error, "error") or error
    if not isinstance(message, str) or not message.strip():
        return ""

    first_line = message.strip().splitlines()[0].strip()
    ellipsis = "…" if len(first_line) > MAX_ERROR_LENGTH else ""
    return f": {first_line[:MAX_ERROR_LENGTH]}{ellipsis}"


def require_object(value: Json, location: Path | str) -> dict[str, Json]:
    """Return a JSON value if it is an object; raise ImportFormatError [import-format] if not."""
    if not isinstance(value, dict):
        raise _wrong_type_error(value, "an object", location)
    return value


def require_list(value: Json, location: Path | str) -> list[Json]:
    """Return a JSON value if it is a list; raise ImportFormatError [import-format] if not."""
    if not isinstance(value, list):
        raise _wrong_type_error(value, "a list", location)
    return value


def _wrong_type_error(value: Json, expected: str, location: Path | str) -> ImportFormatError:
    """Make the error [import-format] for a JSON value that is not of the `expected` type."""
    problem = f"it is not {expected}: got {format_excerpt(value)}. Pass the file as the tool wrote it."
    return import_error(location, problem, slug="import-format")


def get_nested(value: Json, *keys: str | int) -> Json:
    """Return the value at a path of keys and list positions, or None if the path does not exist."""
    for key in keys:
        if isinstance(key, str) and isinstance(value, dict):
            value = value.get(key)
        elif isinstance(key, int) and isinstance(value, list) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return None
    return value


def find_unique_suffixes(paths: Sequence[Path]) -> list[str]:
    """Return a short name for each path: the fewest last parts (folders or file) that distinguish it from all other paths.

    Last parts that all paths have in common are removed first. Equal paths get equal names.

    >>> find_unique_suffixes([Path("plain/m"), Path("new/hot/m"), Path("old/hot/m")])
    ['plain', 'new/hot', 'old/hot']
    >>> find_unique_suffixes([Path("runs/one"), Path("runs/two"), Path("runs/two")])
    ['one', 'two', 'two']
    """
    split_paths = [path.resolve().parts for path in paths]
    if len(set(split_paths)) > 1:
        # the root and the part below it stay, so that no name becomes empty
        while min(map(len, split_paths)) > 2 and len({parts[-1] for parts in split_paths}) == 1:
            split_paths = [parts[:-1] for parts in split_paths]

    # suffix (last parts of a path) → number of different paths that end with it
    n_paths: Counter[tuple[str, ...]] = Counter()
    for parts in set(split_paths):
        n_paths.update(parts[-length:] for length in range(1, len(parts) + 1))

    suffixes = []
    for parts in split_paths:
        length = 1
        while n_paths[parts[-length:]] > 1:
            length += 1
        suffixes.append("/".join(parts[-length:]))
    return suffixes


def find_disambiguating_suffixes(names: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """Return a suffix for each name that makes it unique, as in "m (a)" and "m (b)" for two names "m".

    The suffix is the part of the path that distinguishes equal names (`find_unique_suffixes`): for the paths a/x and b/x, it
    is "a" and "b". It is empty for a unique name, and for equal names with equal paths.

    names : names of the paths, such as those of models; several paths may have the same name
    paths : path of each name, in the same order

    >>> find_disambiguating_suffixes(["m", "m", "n"], [Path("a/x"), Path("b/x"), Path("b/y")])
    ['a', 'b', '']
    """
    result = [""] * len(names)
    for name in set(names):
        positions = [position for position, each in enumerate(names) if each == name]
        suffixes = find_unique_suffixes([paths[position] for position in positions])
        if len(set(suffixes)) > 1:
            for position, suffix in zip(positions, suffixes, strict=True):
                result[position] = suffix
    return result


def disambiguate_names(names: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """Append a suffix of the path, in parentheses, to each name that several paths have.

    >>> disambiguate_names(["m", "m", "n"], [Path("a/x"), Path("b/x"), Path("b/y")])
    ['m (a)', 'm (b)', 'n']
    """
    suffixes = find_disambiguating_suffixes(names, paths)
    return [f"{name} ({suffix})" if suffix else name for name, suffix in zip(names, suffixes, strict=True)]


def group_spelling_variants(names: Iterable[str]) -> list[list[str]]:
    """Group names that differ only by spaces, by case or by the Unicode encoding of their accents.

    Names without a variant are left out.

    >>> group_spelling_variants(["GPT 4", "gpt4", "other"])
    [['GPT 4', 'gpt4']]
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        without_spaces = "".join(unicodedata.normalize("NFC", name).split())
        groups.setdefault(without_spaces.casefold(), []).append(name)
    return [group for group in groups.values() if len(group) > 1]
