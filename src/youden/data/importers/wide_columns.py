"""Find the columns of a wide table: one column of responses per agent, and the column of their questions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from statistics import fmean, median

from youden.data.importers.column_names import (
    ABOUT,
    NAMES,
    PARTS,
    REMARKS,
    SUBJECTS,
    get_name_priority,
    infer_role,
    is_about_responses,
    normalize_name,
    split_into_words,
)
from youden.data.importers.column_values import ColumnCandidates, UnclearColumnsError

_UNNAMED = re.compile(r"column \d+")
"""Name that a column without a name gets when the table is read."""
_REPEATED = re.compile(r" \(\d+\)$")
"""Number that is appended to the name of a column if an earlier one has the same name."""


class WideTableSearch(ColumnCandidates):
    """Search for the columns of agents and of questions in a table with a column per agent."""

    def find_agent_columns(self) -> tuple[str, ...]:
        """Find the columns that each hold the responses of one agent.

        These are the columns of prose, except the column of questions. If fewer than two remain, columns of short texts are
        used.

        Returns at least two columns, and sets the columns that may identify the items (`set_item_columns`). If the table has
        no such columns, the result is empty, and nothing is set.

        Raises: UnclearColumnsError if a column may hold responses or describe items.
        """
        if self.has_one_text_column():
            return ()
        candidates = [name for name in self.table.names if self.may_hold_responses(name)]
        prose_columns = [name for name in candidates if self.holds_long_or_varied_prose(name)]
        question = self.given.get("prompt") or self.find_question_column(prose_columns)

        agent_columns = [name for name in prose_columns if name != question]
        if question is None:
            self.check_columns_are_not_items(agent_columns)
        has_prose = len(agent_columns) >= 2
        if not has_prose:  # the responses may be short texts
            short_columns = [name for name in candidates if name not in prose_columns]
            agent_columns = [name for name in short_columns if not self.has_group_name(name)]
        if len(agent_columns) < 2:
            return ()

        self.check_doubtful_columns(agent_columns, question=question, has_prose=has_prose)
        self.set_item_columns(question, prose_columns)
        return tuple(agent_columns)

    def check_doubtful_columns(self, agent_columns: Sequence[str], *, question: str | None, has_prose: bool) -> None:
        """Raise UnclearColumnsError if it is not certain which columns hold the responses of agents.

        Two kinds of columns are doubtful:

        - chosen columns that may hold something else, such as remarks;
        - if the responses are prose, other columns that may hold the responses of another agent.

        The error proposes the chosen columns that are not doubtful as responses, and `question` as prompts.

        agent_columns : chosen columns, which may each hold the responses of one agent; at least two
        question : column of questions; None if the table has no such column
        has_prose : whether the responses are prose
        """
        doubtful = self.list_doubtful_columns(agent_columns, has_question=question is not None)
        certain_columns = [name for name in agent_columns if name not in doubtful]
        other_columns = [name for name in self.table.names if name not in (question, *agent_columns)]
        if has_prose:
            doubtful += [name for name in other_columns if self.may_hold_another_agent(name, certain_columns)]
        if not doubtful:
            return

        options = {"text": ",".join(certain_columns)}
        if question:
            options["prompt"] = question
        names = ", ".join(map(repr, doubtful))
        problem = f"{names} may be an agent, or describe the items or responses (add the names of agents to text=)"
        raise UnclearColumnsError(problem, **options)

    def set_item_columns(self, question: str | None, prose_columns: Sequence[str]) -> None:
        """Set `item_columns`: the columns that may identify the items of a table with one column per agent.

        Columns of ids or questions may identify the items. In a table without questions, columns of e-mail addresses, URLs
        and UUIDs may do so, too, whatever their names are. If there is a column of questions, `prompt_columns` is set to it.

        question : column of questions; None if the table has no such column
        prose_columns : columns of questions or responses; only `question` is one of the columns that may identify items
        """
        candidates = [name for name in self.get_candidates("item") if name not in prose_columns]
        self.item_columns = list(filter(self.can_be_id, candidates))
        if question is None:
            address_columns = [name for name in self.unnamed_columns if self.table[name].is_contact]
            self.item_columns += address_columns
        else:
            self.prompt_columns = [question]
            self.item_columns.append(question)

    def list_doubtful_columns(self, agent_columns: Sequence[str], *, has_question: bool) -> list[str]:
        """List the columns that seem to hold the responses of agents, but may hold something else.

        A column is doubtful if one of these statements is true:

        - It may hold remarks: it has a name such as "Ana's comments", no name, or less than half the median number of values.
        - It may hold further questions: `has_question` is true, and its fraction of questions is the largest by at least 0.5.
        - It may hold parts of responses: it is named like an agent with a word such as "thinking", as "gpt thinking" next to
          "gpt".
        - It may hold a selection of responses, such as the best ones: it has texts of several other columns, and no others.

        agent_columns : columns that may each hold the responses of one agent
        has_question : whether another column holds the questions

        Returns the doubtful columns; none of them if fewer than two other columns would remain.
        """
        suspects: set[str | None] = set()
        for name in agent_columns:
            if REMARKS & split_into_words(name) or self.is_selection(name, agent_columns):
                suspects.add(name)
        names = {normalize_name(name) for name in agent_columns}
        for name in agent_columns:
            agent, _, last_word = normalize_name(name).rpartition("_")
            if last_word in PARTS and agent in names:
                suspects.add(name)
        if has_question:
            suspects.add(self.find_column_with_most_questions(agent_columns))

        min_filled = 0.5 * median(self.table[name].filled_fraction for name in agent_columns)
        doubtful_columns = []
        for name in agent_columns:
            is_sparse = self.table[name].filled_fraction < min_filled
            if name in suspects or is_sparse or _UNNAMED.fullmatch(name):
                doubtful_columns.append(name)
        n_certain = len(agent_columns) - len(doubtful_columns)
        return doubtful_columns if n_certain > 1 else []

    def is_selection(self, name: str, agent_columns: Sequence[str]) -> bool:
        """Return whether each text of a column is that of another column in the same row, but not always of the same one."""
        texts = self.table[name].value_texts
        other_columns = [self.table[column].value_texts for column in agent_columns if column != name]
        if self.table[name].mean_words < self.MIN_WORDS or texts in other_columns:
            return False
        rows = zip(texts, *other_columns, strict=True)
        return all(text in row_texts for text, *row_texts in rows if text)

    def may_hold_another_agent(self, name: str, agent_columns: Sequence[str]) -> bool:
        """Return whether a column that was not chosen as an agent's column may hold the responses of another agent.

        A column of texts with a name that suggests agents, for example "variant", may hold responses if its texts seldom recur
        (fewer than two rows per text). Other columns cannot hold responses if they hold addresses or UUIDs, or have a different
        meaning (`has_other_meaning`). All remaining columns may hold responses if they have one of these contents:

        - texts between two columns of agents;
        - texts that seldom recur and have no digits;
        - texts of which more than a fifth are prose;
        - numbers between two columns of agents, if no other column has the same name.

        name : column to be tested
        agent_columns : columns that each hold the responses of one agent; at least one
        """
        column = self.table[name]
        is_named_like_agents = infer_role(name) == "agent" and name not in self.given.values()
        if is_named_like_agents and column.is_text and not column.is_repetitive:
            return True
        if column.is_contact or self.has_other_meaning(name, agent_columns):
            return False

        positions = [self.table.names.index(agent) for agent in agent_columns]
        is_between_agents = min(positions) < self.table.names.index(name) < max(positions)
        if not column.is_text:
            # a measurement may have the same name for each agent
            names_without_number = [_REPEATED.sub("", each) for each in self.table.names]
            return is_between_agents and names_without_number.count(_REPEATED.sub("", name)) == 1

        has_digits = any(re.search(r"\d", text) for text in column.distinct_texts)  # as ids and dates have
        is_varied = not column.is_repetitive and not has_digits
        n_prose = sum(len(text.split()) >= self.MIN_WORDS for text in column.texts)
        return is_between_agents or is_varied or n_prose > 0.2 * len(column.values)

    def has_other_meaning(self, name: str, agent_columns: Sequence[str]) -> bool:
        """Return whether a column has a role or the name of one, or its name begins with that of an agent's column."""
        is_about_agent = any(normalize_name(name).startswith(f"{normalize_name(agent)}_") for agent in agent_columns)
        has_role_name = infer_role(name) is not None or self.has_group_name(name) or self.is_remark_column(name)
        return name in self.given.values() or is_about_agent or has_role_name

    def has_one_text_column(self) -> bool:
        """Return whether one column has a usual name for responses, and at most two others may hold responses as prose."""
        usual_columns = [name for name in self.text_columns if normalize_name(name) in NAMES["text"]]
        if len(usual_columns) != 1:
            return False
        other_columns = [*self.unnamed_columns, *self.get_candidates("agent")]
        n_prose = sum(self.table[name].is_prose for name in other_columns)
        return n_prose <= 2

    def holds_long_or_varied_prose(self, name: str) -> bool:
        """Return whether a column holds prose that may be responses: it has many words on average, or its values seldom recur."""
        column = self.table[name]
        return column.is_prose and (column.mean_words >= self.MIN_WORDS or not column.is_repetitive)

    def may_hold_responses(self, name: str) -> bool:
        """Return whether a column that the user did not name holds texts other than addresses, UUIDs and remarks."""
        if name in self.given.values() or is_about_responses(name) or self.is_remark_column(name):
            return False
        return self.table[name].is_text and not self.table[name].is_contact

    def is_remark_column(self, name: str) -> bool:
        """Return whether a column has remarks on the responses in another column, or parts of these responses.

        The names of both columns begin with the same words. For example, "gpt rationale" has remarks on the responses in "gpt
        answer", and "gpt reasoning" has parts of them.

        There is an exception: "gpt thinking" may be an agent next to "gpt base", because neither name denotes responses.
        """
        *first_words, last_word = normalize_name(name).split("_")
        if not first_words or last_word not in ABOUT | PARTS:
            return False

        other_names = [normalize_name(column).split("_") for column in self.table.names if column != name]
        related_names = [words for words in other_names if words[: len(first_words)] == first_words]
        if last_word in ABOUT:
            return bool(related_names)
        return any(words[-1] in NAMES["text"] for words in related_names)

    def has_group_name(self, name: str) -> bool:
        """Return whether the name of a column suggests items, prompts, groups of items, or information about them."""
        words = split_into_words(name)
        names_subject = bool(SUBJECTS & words and not self.AGENT_NAMES & words)
        return names_subject or infer_role(name) in ("item", "prompt", "about")

    def find_question_column(self, prose_columns: Sequence[str]) -> str | None:
        """Return the column of questions among columns of prose; None if all of them hold responses.

        A name that suggests questions decides. Without such a name, the texts of the columns are compared. Two columns are
        too few for this comparison, so both are taken as responses.

        prose_columns : names of the columns of prose, in the order of the table

        Raises: UnclearColumnsError if several columns may hold questions, or if a column may hold questions or responses.
        """
        candidates = []
        for name in prose_columns:
            is_usual_name = normalize_name(name) in NAMES["prompt"]
            if is_usual_name or infer_role(name) in ("prompt", "item"):
                candidates.append(name)
        if len(prose_columns) < 3:
            return candidates[0] if candidates else None
        if len(candidates) > 1:
            raise self.make_several_questions_error(candidates, prose_columns)

        question = candidates[0] if candidates else self.find_column_with_most_questions(prose_columns)
        if question is None:
            self.check_first_and_last_column(prose_columns)
            return None
        self.check_responses_are_on_one_side(question, prose_columns)
        return question

    def find_column_with_most_questions(self, prose_columns: Sequence[str]) -> str | None:
        """Return the column in which the largest fraction of texts are questions.

        Returns None if this fraction exceeds that of another column by less than 0.5.

        prose_columns : names of at least two columns of prose
        """
        fractions = {name: self.table[name].question_fraction for name in prose_columns}
        highest, second_highest = sorted(prose_columns, key=fractions.__getitem__, reverse=True)[:2]
        is_clear = fractions[highest] >= 0.5 + fractions[second_highest]
        return highest if is_clear else None

    def make_several_questions_error(
        self, candidates: Sequence[str], prose_columns: Sequence[str]
    ) -> UnclearColumnsError:
        """Make the error for a table in which several columns may hold the questions.

        The error proposes these columns to the user:

        - As prompts: the candidate with the largest fraction of questions. If fractions are equal, the most usual name
          decides.
        - As responses: all columns of prose that are not candidates. If fewer than two remain, all columns of prose except
          the prompts.

        candidates : names of the columns that may hold questions
        prose_columns : names of all columns of prose, in the order of the table

        Returns the error, to be raised by the caller.
        """
        by_name = sorted(candidates, key=lambda name: get_name_priority(name, "prompt"))
        prompt_column = max(by_name, key=lambda name: self.table[name].question_fraction)
        response_columns = [name for name in prose_columns if name not in candidates]
        if len(response_columns) < 2:
            response_columns = [name for name in prose_columns if name != prompt_column]
        problem = f"{' and '.join(map(repr, candidates))} could both be the question"
        return UnclearColumnsError(problem, prompt=prompt_column, text=",".join(response_columns))

    def check_first_and_last_column(self, prose_columns: Sequence[str]) -> None:
        """Raise UnclearColumnsError if the first or the last column of prose differs from all others.

        That column may hold questions, which are usually before or after the responses.

        prose_columns : names of at least three columns of prose, in the order of the table
        """
        for name in (prose_columns[0], prose_columns[-1]):
            responses = [other_name for other_name in prose_columns if other_name != name]
            if self.differs_from_others(name, responses):
                problem = f"{name!r} could be the question or an agent"
                raise UnclearColumnsError(problem, prompt=name, text=",".join(responses))

    def check_responses_are_on_one_side(self, question: str, prose_columns: Sequence[str]) -> None:
        """Raise UnclearColumnsError if there are columns of prose both before and after the column of questions.

        The error proposes the larger of the two groups as the responses. If both are equally large, it proposes the group
        after the questions.

        question : name of the column of questions
        prose_columns : names of all columns of prose, including `question`, in the order of the table
        """
        position = prose_columns.index(question)
        columns_before, columns_after = prose_columns[:position], prose_columns[position + 1 :]
        if not columns_before or not columns_after:
            return
        unclear, responses = columns_before, columns_after
        if len(columns_before) > len(columns_after):
            unclear, responses = columns_after, columns_before
        problem = f"{', '.join(map(repr, unclear))} may be an agent or belong to the question"
        raise UnclearColumnsError(problem, prompt=question, text=",".join(responses))

    def differs_from_others(self, name: str, other_names: Sequence[str]) -> bool:
        """Return whether a column of prose differs from all others, as a column of questions would.

        The names decide if all other names share a word or their first three letters. For example, "frage" differs from "gpt
        a" and "gpt b". Otherwise, the texts decide, and one difference is sufficient:

        - Length: the mean length of its texts is at most 0.75 times, or at least 1.33 times, that of the other texts.
        - Words: its mean overlap with the other columns is less than 0.9 times the mean overlap among the other columns. The
          overlap is the fraction of words that two texts share.

        The texts of only the first eight other columns are compared.

        name : column to be tested
        other_names : all other columns of prose, at least two
        """
        parts_of_others = [_get_name_parts(other_name) for other_name in other_names]
        common_parts = set.intersection(*parts_of_others)
        if common_parts:
            return common_parts.isdisjoint(_get_name_parts(name))

        column = self.table[name]
        other_columns = [self.table[other_name] for other_name in other_names[:8]]
        mean_other_length = fmean(other_column.mean_length for other_column in other_columns)
        if not 0.75 < column.mean_length / mean_other_length < 1.33:
            return True

        overlap_with_others = fmean(map(column.compute_word_overlap, other_columns))
        overlap_among_others = fmean(
            first.compute_word_overlap(second) for first, second in combinations(other_columns, 2)
        )
        return overlap_with_others < 0.9 * overlap_among_others

    def check_columns_are_not_items(self, agent_columns: Sequence[str]) -> None:
        """Raise UnclearColumnsError if each row may hold the responses of one agent, in one column per item.

        Such a table has fewer rows than columns of responses. In addition, another column has a different text in each row,
        such as the names of agents. Nothing is checked if the user named any column (`given`), or if the name of a column
        suggests items.

        agent_columns : columns that may each hold the responses of one agent, in a table without prompts
        """
        n_rows = self.table.n_rows
        has_known_columns = bool(self.given or self.get_candidates("item"))
        if has_known_columns or n_rows >= len(agent_columns):
            return
        other_columns = [self.table[name] for name in self.table.names if name not in agent_columns]
        if any(column.is_text and len(column.distinct_texts) == n_rows for column in other_columns):
            raise UnclearColumnsError(self.ROW_PER_AGENT)


def _get_name_parts(name: str) -> set[str]:
    """Return the words of a column's name, and its first three letters."""
    return split_into_words(name) | {normalize_name(name)[:3]}
