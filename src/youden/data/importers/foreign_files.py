"""Opens other people's files (which ones, in which encoding, as JSON) and tells agents apart by where their files lie."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from youden.data.pools.spool import shown
from youden.errors import ImportFormatError
from youden.text.json_text import MAX_DEPTH, JSONDecodeError, is_nested_deeper, replace_nonfinite, replace_surrogates
from youden.text.json_text import parse_json as parse_tolerantly
from youden.text.regular_files import read_regular, special_kind
from youden.text.replacements import Replacements
from youden.types.pool import Json

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SURROGATE = re.compile("[\ud800-\udfff]")


def wrong(place: Path | str, problem: str, *, slug: str) -> ImportFormatError:
    """The error that names the place first."""
    return ImportFormatError(f"{place}: {problem}", slug=slug)


def files_of(paths: Sequence[Path], patterns: Sequence[str], *, what: str) -> list[Path]:
    """The files given, and those in folders given (at any depth) whose names fit a pattern, by path.

    Raises: ImportFormatError [import-not-found], [import-empty] where there are none.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            inside = sorted({file for pattern in patterns for file in path.rglob(pattern) if file.is_file()})
            if not inside:
                raise wrong(
                    path,
                    f"no file in this folder fits {', '.join(patterns)}. Give {what}, or a folder that holds some.",
                    slug="import-empty",
                )
            found.update(dict.fromkeys(inside))
        elif path.is_file():
            found[path] = None
        else:
            problem = f"it is {kind}, not a file" if (kind := special_kind(path)) else "there is no such file or folder"
            raise wrong(path, f"{problem}. Give {what}.", slug="import-not-found")
    return list(found)


def read_text(path: Path, replaced: Replacements | None = None) -> str:
    """The file's text, in the encoding its byte order mark names, else UTF-8.

    Unpaired surrogates that were written as bytes are replaced by U+FFFD and counted in `replaced`.

    Raises: ImportFormatError [import-encoding] with line and byte, [import-not-found].
    """
    try:
        raw = read_regular(path)
    except OSError as error:
        raise wrong(path, f"it cannot be read ({error.strerror}). Check the path.", slug="import-not-found") from error
    encoding = "utf-8"
    for mark, named in _MARKS:
        if raw.startswith(mark):
            raw, encoding = raw.removeprefix(mark), named
            break
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        with suppress(UnicodeDecodeError):
            text = raw.decode(encoding, "surrogatepass")
            if replaced is not None:
                replaced.add(n_texts=len(_SURROGATE.findall(text)), place=path)
            return replace_surrogates(text)
        line = raw[: error.start].count(b"\n") + 1
        raise wrong(
            f"{path}, line {line}",
            f"byte 0x{raw[error.start]:02x} is not {encoding.upper()}. Save the file as UTF-8.",
            slug="import-encoding",
        ) from error


def read_json(path: Path, replaced: Replacements | None = None) -> Json:
    """Read the one JSON value of a file, as `parse_json` does. Raises: ImportFormatError [import-json]."""
    return parse_json(read_text(path, replaced), path, replaced)


def parse_json(
    text: str | bytes,
    place: Path | str,
    replaced: Replacements | None = None,
    *,
    remedy: str = "Give the file as the tool wrote it",
) -> Json:
    """Parse `text` as JSON; NaN and infinities are None, and unpaired surrogates U+FFFD, counted in `replaced`.

    Raises: ImportFormatError [import-json] with line and column, also if it is nested too deeply; [import-encoding] for bytes
        that are not UTF-8.
    """
    try:
        decoded = text if isinstance(text, str) else text.decode()
    except UnicodeDecodeError as error:
        problem = f"byte 0x{error.object[error.start]:02x} at position {error.start + 1} is not UTF-8. {remedy}."
        raise wrong(place, problem, slug="import-encoding") from error
    try:
        parsed = parse_tolerantly(decoded)
    except JSONDecodeError as error:
        position = f"column {error.colno}" if "\n" not in decoded else f"line {error.lineno}, column {error.colno}"
        raise wrong(place, f"it is no JSON ({error.msg}, {position}). {remedy}.", slug="import-json") from error
    if decoded.count("[") + decoded.count("{") > MAX_DEPTH and is_nested_deeper(parsed.value, MAX_DEPTH):
        problem = f"its lists and objects are nested more than {MAX_DEPTH} deep. {remedy}."
        raise wrong(place, problem, slug="import-json")
    if replaced is not None:
        replaced.add(n_nonfinite=parsed.n_nonfinite, n_texts=parsed.n_replaced_texts, place=place)
    value: Json = replace_nonfinite(parsed.value) if parsed.n_nonfinite else parsed.value
    return value


def read_lines(path: Path, replaced: Replacements | None = None) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield (place, object) of each line that is not blank, as `parse_json` reads it. Raises: ImportFormatError [import-json]."""
    yield from parse_lines(read_text(path, replaced), path, replaced)


def parse_lines(text: str, path: Path, replaced: Replacements | None = None) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield what `read_lines` does, from the text of the file at `path`."""
    for number, line in enumerate(text.split("\n"), 1):
        if line and not line.isspace():
            place = f"{path}, line {number}"
            yield place, as_object(parse_json(line, place, replaced, remedy="Write one object per line"), place)


def error_said(error: Json) -> str:
    """What a tool says of a failure, to stand behind its place: the first line, in short; empty where it says nothing.

    >>> error_said({"message": "429: slow down\\n…"}), error_said(None)
    (': 429: slow down', '')
    """
    said = inner(error, "message") or inner(error, "error") or error
    first = next((line.strip() for line in said.splitlines() if line.strip()), "") if isinstance(said, str) else ""
    return f": {first[:MOST_SAID]}{'…' * (len(first) > MOST_SAID)}" if first else ""


MOST_SAID = 160


def as_object(value: Json, place: Path | str) -> dict[str, Json]:
    """`value`, if it is an object. Raises: ImportFormatError [import-format]."""
    if not isinstance(value, dict):
        raise wrong(
            place, f"it is {shown(value)}, no object. Give the file as the tool wrote it.", slug="import-format"
        )
    return value


def as_list(value: Json, place: Path | str) -> list[Json]:
    """`value`, if it is a list. Raises: ImportFormatError [import-format]."""
    if not isinstance(value, list):
        raise wrong(place, f"it is {shown(value)}, no list. Give the file as the tool wrote it.", slug="import-format")
    return value


def inner(value: Json, *keys: str | int) -> Json:
    """The value at a path of keys and positions; None where the path ends early."""
    for key in keys:
        if isinstance(key, str) and isinstance(value, dict):
            value = value.get(key)
        elif isinstance(key, int) and isinstance(value, list) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return None
    return value


def suffixes(paths: Sequence[Path]) -> list[str]:
    """For each path the shortest end that no other path has, without the part in which all end alike.

    >>> suffixes([Path("plain/m"), Path("new/hot/m"), Path("old/hot/m")])
    ['plain', 'new/hot', 'old/hot']
    >>> suffixes([Path("runs/one"), Path("runs/two"), Path("runs/two")])
    ['one', 'two', 'two']
    """
    parts = [path.resolve().parts for path in paths]
    end = 0
    if len(set(parts)) > 1:
        while end < min(map(len, parts)) - 2 and len({part[-end - 1] for part in parts}) == 1:
            end += 1
    kept = [part[: len(part) - end] for part in parts]
    sharing: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for part in kept:
        for depth in range(1, len(part) + 1):
            sharing.setdefault(part[-depth:], set()).add(part)
    lengths = [next(depth for depth in range(1, len(part) + 1) if len(sharing[part[-depth:]]) == 1) for part in kept]
    return ["/".join(part[-depth:]) for part, depth in zip(kept, lengths, strict=True)]


def apart(names: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """What has to stand behind each name: the end of its path, or nothing where one path has that name.

    >>> apart(["m", "m", "n"], [Path("a/x"), Path("b/x"), Path("b/y")])
    ['a', 'b', '']
    """
    behind = [""] * len(names)
    places: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        places.setdefault(name, []).append(at)
    for alike in places.values():
        ends = suffixes([paths[at] for at in alike])
        if len(set(ends)) > 1:
            for at, end in zip(alike, ends, strict=True):
                behind[at] = end
    return behind


def distinct(names: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """A name for each path: as given where no two are alike, else with the end of the path.

    >>> distinct(["m", "m", "n"], [Path("a/x"), Path("b/x"), Path("b/y")])
    ['m (a)', 'm (b)', 'n']
    """
    return [f"{name} ({end})" if end else name for name, end in zip(names, apart(names, paths), strict=True)]


def spelled_alike(names: Iterable[str]) -> list[list[str]]:
    """Groups of names that differ by spaces, case or the way an accent is written, and by nothing else.

    >>> spelled_alike(["GPT 4", "gpt4", "other"])
    [['GPT 4', 'gpt4']]
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault("".join(unicodedata.normalize("NFC", name).split()).casefold(), []).append(name)
    return [group for group in groups.values() if len(group) > 1]
