"""Draw the figures of a report with Altair: the ranking, and matrices of agents and of scores as tiles.

A large matrix is drawn in bins, which the note of the figure states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import altair as alt
import numpy as np

from youden.report.charts import checks as check_charts
from youden.report.charts.marks import (
    NO_GROUP,
    SCORE,
    Column,
    Figure,
    Frame,
    color_by_group,
    format_n_answers,
    make_chart,
    make_tile_scale,
    make_tooltips,
    without_validation,
)
from youden.report.data.ranking_tables import RankedAgent
from youden.report.data.report import ReportData
from youden.text.tables import format_decimal
from youden.types.pool import Bools, Floats

LINKED_COLOR = "#d1242f"
"""Color of the outline of flagged pairs."""
MAX_RANKED = 200
"""Maximum number of agents in the figure of the ranking: each needs 17 pixels, and more than 65,535 cannot be drawn."""


def _draw_matrix(
    slug: str,
    title: str,
    note: str,
    source: str,
    value: Floats,
    *,
    color: alt.Color,
    sides: Mapping[str, Sequence[str]],
    row_height: int,
    max_height: int,
    max_labeled: int,
    titles: Sequence[str | None] = (None, None),
    flagged: Bools | None = None,
) -> Figure:
    """Draw a matrix as colored tiles.

    slug : short name of the figure
    title, note, source : title, explanation below the figure, and source of the data
    value : float array (n_rows, n_columns), NaN for no tile
    color : color scale of the values
    sides : two entries: the field of the rows with their names, then the field of the columns with their names
    row_height, max_height : heights in pixels of one row, and of the figure
    max_labeled : maximum number of rows with labels
    titles : titles of the vertical and of the horizontal axis
    flagged : bool array (n_rows, n_columns), tiles to outline
    """
    (row, row_names), (column, column_names) = sides.items()

    is_labeled = len(row_names) <= max_labeled
    axis = alt.Axis(labels=is_labeled, ticks=is_labeled, labelLimit=110)
    column_axis = axis if row_names is column_names else alt.Axis(labels=False, ticks=False)
    base = make_chart().encode(
        x=alt.X(f"{column}:N", scale=make_tile_scale(column_names), title=titles[1], axis=column_axis),
        y=alt.Y(f"{row}:N", scale=make_tile_scale(row_names), title=titles[0], axis=axis),
    )
    tooltip_fields = [f"{row}:N", f"{column}:N", "value:Q .3f"]
    if flagged is not None:
        tooltip_fields.append("flagged:N")
    chart = base.mark_rect().encode(color=color, tooltip=make_tooltips(*tooltip_fields))

    i, j = np.nonzero(~np.isnan(value))
    columns: dict[str, Column] = {
        row: [row_names[k] for k in i.tolist()],
        column: [column_names[k] for k in j.tolist()],
        "value": value[i, j],
    }
    if flagged is not None:
        columns["flagged"] = np.where(flagged[i, j], "yes", "no").tolist()
        if flagged.any():
            flagged_tiles = base.transform_filter("datum.flagged == 'yes'")
            outline_width = 2 if is_labeled else 1
            chart += flagged_tiles.mark_rect(filled=False, stroke=LINKED_COLOR, strokeWidth=outline_width)
    frame = Frame.from_columns(**columns)

    height = min(max_height, max(160, row_height * len(row_names)))
    return Figure(slug, title, note, source, chart, frame=frame, height=height, canvas=True)


def _residual_color(value: Floats, title: str) -> alt.Color:
    """Return a color scale for residuals that is symmetric around 0."""
    limit = max(float(np.nanmax(np.abs(value))), 0.01)
    return alt.Color("value:Q", title=title, scale=alt.Scale(scheme="blueorange", domain=[-limit, limit]))


def _score_color(title: str) -> alt.Color:
    """Return a color scale for scores."""
    return alt.Color("value:Q", title=title, scale=alt.Scale(scheme="viridis"))


def _describe_bins(size: int, content: str) -> str:
    """Return a sentence, for the note of a figure, that a tile is a mean over several cells; empty if `size` is 1.

    `content` describes the cells, such as "2 agents × 17 items".
    """
    if size == 1:
        return ""
    return f" Drawn in bins: a tile is the mean over {content}."


_NOTE_ON_AGREEMENT = (
    "Mean of both orders, minus the means of the items. Good agents agree with each other: bright at the top left."
)
_NOTE_ON_RESIDUAL_AGREEMENT = (
    "Agreement minus the sum of the robust effects of both agents, with the same rows and columns. Orange: more than "
    "explained."
)


def draw_pairs(data: ReportData) -> Iterator[Figure]:
    """Draw two heat maps of the pairs of agents: the agreement of each pair, and its residual.

    The residual is the agreement minus the effects of both agents. The second figure is left out if no residual is known. Pairs
    within a flagged group, whose agents agree more than honest agents do, are outlined. Yields nothing if no pair was compared.
    """
    grid = data.checks.pairs
    if grid is None or np.isnan(grid.agreement).all():
        return

    source = f"rates.parquet, {format_n_answers(data.summary)}"
    note_on_tiles = " Outlined: agents of one flagged group." if grid.flagged.any() else ""
    agents_per_tile = f"{grid.agents_per_row} × {grid.agents_per_row} agents"
    note_on_tiles += _describe_bins(grid.agents_per_row, agents_per_tile)

    # what both figures have in common
    draw_heat_map = partial(
        _draw_matrix,
        sides={"first": grid.names, "second": grid.names},
        row_height=16,
        max_height=520,
        max_labeled=40,
        flagged=grid.flagged,
    )

    title = "Agreement of pairs, best agents first"
    note = f"{_NOTE_ON_AGREEMENT}{note_on_tiles}"
    agreement_color = _score_color("agreement (TPR − FPR)")
    yield draw_heat_map("pairs", title, note, source, grid.agreement, color=agreement_color)

    if not np.isnan(grid.residual).all():
        title = "Agreement that the abilities of two agents do not explain"
        note = f"{_NOTE_ON_RESIDUAL_AGREEMENT}{note_on_tiles}"
        residual_color = _residual_color(grid.residual, "beyond a_i + a_k (TPR − FPR)")
        yield draw_heat_map("pairs-beyond", title, note, source, grid.residual, color=residual_color)


@without_validation
def draw_figures(data: ReportData) -> tuple[Figure, ...]:
    """Draw all figures for which a run has data, in the order of the page."""
    functions: Sequence[Callable[[ReportData], Iterator[Figure]]] = (
        _draw_ranking,
        _draw_agents,
        _draw_cells,
        check_charts.draw_difficulty,
        check_charts.draw_curl,
        check_charts.draw_false_positive_rates,
        check_charts.draw_holdout,
        check_charts.draw_quality,
        check_charts.draw_variance_components,
        draw_pairs,
    )
    return tuple(figure for draw in functions for figure in draw(data))


@without_validation
def draw_ranking_figure(agents: Sequence[RankedAgent], *, level: float, source: str, unit: str = "") -> Figure:
    """Draw how far each agent is from the average agent, with its interval.

    Parameters
    ----------
    agents : sequence of RankedAgent
        Ranking, best agent first. The first `MAX_RANKED` (200) agents with an ability are drawn; at least one agent must have an
        ability. The average is taken over all agents with an ability, including those that are not drawn.
    level : float
        Confidence level of the intervals, for display: for example, 0.95.
    source : str
        Source of the data, for display.
    unit : str, optional
        Unit of the abilities, for the title of the axis. Default: "score (TPR − FPR)".

    Returns
    -------
    Figure
        Figure with the `slug` "ranking": a Vega-Lite specification (`spec`) with its data, title and note. An agent without an
        interval has a dot only.
    """
    ranked = [agent for agent in agents if agent.ability is not None]
    average = float(np.mean([agent.ability for agent in ranked]))
    drawn = ranked[:MAX_RANKED]

    columns: dict[str, Column] = {
        "agent": [agent.agent for agent in drawn],
        "ability": [agent.ability for agent in drawn],
    }
    has_groups = any(agent.group for agent in drawn)
    if has_groups:
        columns["group"] = [agent.group or NO_GROUP for agent in drawn]
    for name, attribute in {"distance": "ability", "low": "low", "high": "high"}.items():
        values = [getattr(agent, attribute) for agent in drawn]
        columns[name] = [None if value is None else value - average for value in values]
    frame = Frame.from_rows(drawn, **columns, ranks="ranks", trials="n_trials")

    numbers = ("ability:Q .3f", "distance:Q +.3f", "low:Q +.3f", "high:Q +.3f", "trials:Q ,")
    names = ["agent:N", "group:N", "ranks:N"] if has_groups else ["agent:N", "ranks:N"]
    base = make_chart().encode(
        y=alt.Y("agent:N", sort=None, title=None, axis=alt.Axis(labelLimit=170)),
        color=color_by_group(frame),
        tooltip=make_tooltips(*names, *numbers),
    )
    x = alt.X("distance:Q", title=["ability minus the average agent's", unit or SCORE], scale=alt.Scale(zero=False))
    chart = alt.LayerChart(layer=[]) + base.mark_point(filled=True, size=70, opacity=1).encode(x=x)
    if any(agent.low is not None for agent in drawn):
        chart += base.mark_rule(strokeWidth=2.5).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"))

    note = (
        f"Dot: ability minus the average ability, which is {format_decimal(average)}; line: its {level:.0%} interval. The lines "
        "of two significantly different agents may overlap, because the standard error of their difference decides."
    )
    if len(ranked) > len(drawn):
        note += f" The first {MAX_RANKED} of {len(ranked):,} agents; the table has all."
    title, height = "Distance from the average agent", 30 + 17 * len(drawn)
    return Figure("ranking", title, note, source, chart, frame=frame, height=height)


def _draw_ranking(data: ReportData) -> Iterator[Figure]:
    """Draw the ranking of a run, unless no agent has an ability."""
    if any(agent.ability is not None for agent in data.summary.ranking):
        source = f"ranking.csv, {format_n_answers(data.summary)}"
        yield draw_ranking_figure(data.summary.ranking, level=data.summary.facts.level, source=source)


def _draw_agents(data: ReportData) -> Iterator[Figure]:
    """Draw two heat maps of the agreement of ordered pairs of agents: by rank, and with similar agents next to each other."""
    grid = data.agents
    source = f"rates.parquet, {format_n_answers(data.summary)}"
    figures = (
        ("agents", grid.by_rank, "best first"),
        ("agents-clustered", grid.by_cluster, "similar agents together"),
    )
    for slug, order, description in figures:
        agreement, names, agents_per_tile = grid.average_tiles(order)
        note = (
            "Tile: how often the judge found that the response of the row (read first) and that of the column answer the same "
            "item, minus the false-positive rate. Empty: not compared."
        )
        note_on_bins = _describe_bins(agents_per_tile, f"{agents_per_tile} × {agents_per_tile} agents")
        title = f"Agreement of agents, {description}"
        yield _draw_matrix(
            slug,
            title,
            note + note_on_bins,
            source,
            agreement,
            color=_score_color("TPR − FPR"),
            sides={"first": names, "second": names},
            row_height=18,
            max_height=620,
            max_labeled=60,
            titles=("read first", "read second"),
        )


def _draw_cells(data: ReportData) -> Iterator[Figure]:
    """Draw two heat maps of agents (rows) and items (columns): the scores, and their residuals.

    A residual is a score minus the prediction of the fit from the ability of the agent and the difficulty of the item. If no
    residual is known, only the scores are drawn.
    """
    grid = data.cells
    n_answers = format_n_answers(data.summary)
    cells_per_tile = grid.agents_per_row * grid.items_per_column
    tile_size = f"{grid.agents_per_row} agents × {grid.items_per_column} items"
    note_on_bins = _describe_bins(cells_per_tile, tile_size)

    # what both figures have in common
    draw_heat_map = partial(
        _draw_matrix,
        sides={"agent": grid.rows, "item": grid.columns},
        row_height=15,
        max_height=620,
        max_labeled=60,
        titles=(None, "item, easiest first"),
    )

    title = "Scores of agents on items"
    note = f"Rows: agents, best first. Columns: items, easiest first. Empty: not compared, or held out.{note_on_bins}"
    source = f"scores.csv, {n_answers}"
    yield draw_heat_map("scores", title, note, source, grid.score, color=_score_color(SCORE))

    if not np.isnan(grid.residual).all():
        title = "What ability − difficulty does not explain"
        note = (
            "Score minus its prediction, with the same rows and columns. A pattern shows that one number per agent does not "
            f"describe all items.{note_on_bins}"
        )
        source = f"scores.csv and the fit ({data.summary.facts.estimator}), {n_answers}"
        residual_color = _residual_color(grid.residual, "residual (score units)")
        yield draw_heat_map("residuals", title, note, source, grid.residual, color=residual_color)
