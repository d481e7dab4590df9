"""Examples of which all tasks have the default rule: groups within groups, and a large graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from tests.airflow_graphs.compare import Example, step
from tests.airflow_graphs.dags import Dag, task
from tests.airflow_graphs.scripts import Script, all_scripts, backward, forward

# A group is a prefix of names: what follows a group follows the tasks at its end.
task_group = Example(
    Dag(
        (
            task("start"),
            task("section_1_task_1", "start"),
            task("section_1_task_2", "section_1_task_1"),
            task("section_1_task_3", "section_1_task_1"),
            task("section_2_task_1", "section_1_task_2 section_1_task_3"),
            task("section_2_inner_task_2", "section_1_task_2 section_1_task_3"),
            task("section_2_inner_task_3", "section_1_task_2 section_1_task_3"),
            task("section_2_inner_task_4", "section_2_inner_task_2 section_2_inner_task_3"),
            task("end", "section_2_task_1 section_2_inner_task_4"),
        )
    ),
    [
        step("start"),
        step("section_1_task_1", "start"),
        step("section_1_task_2", "section_1_task_1"),
        step("section_1_task_3", "section_1_task_1"),
        step("section_2_task_1", "section_1_task_2 section_1_task_3"),
        step("section_2_inner_task_2", "section_1_task_2 section_1_task_3"),
        step("section_2_inner_task_3", "section_1_task_2 section_1_task_3"),
        step("section_2_inner_task_4", "section_2_inner_task_2 section_2_inner_task_3"),
        step("end", "section_2_task_1 section_2_inner_task_4"),
    ],
)


_CREATE = [
    "create_entry_group",
    "create_entry_gcs",
    "create_tag_template",
    "create_tag_template_field",
    "create_tag",
]
_DELETE = [
    "delete_tag",
    "delete_tag_template_field",
    "delete_tag_template",
    "delete_entry_group",
    "delete_entry",
]
_PATHS = """
create_tag delete_tag
create_entry_gcs delete_entry
create_entry_group delete_entry_group
create_tag_template delete_tag_template_field
create_tag_template_field delete_tag_template_field
create_tag_template get_tag_template delete_tag_template
create_entry_gcs get_entry delete_entry
create_entry_group get_entry_group delete_entry_group
create_tag list_tags delete_tag
create_entry_gcs lookup_entry delete_entry
create_tag_template_field rename_tag_template_field delete_tag_template_field
create_entry_gcs update_entry delete_entry
create_tag update_tag delete_tag
create_tag_template update_tag_template delete_tag_template
create_tag_template_field update_tag_template_field rename_tag_template_field
get_tag_template get_tag_template_result
get_entry get_entry_result
get_entry_group get_entry_group_result
list_tags list_tags_result
lookup_entry lookup_entry_result
search_catalog search_catalog_result
"""


def _catalog() -> dict[str, list[str]]:
    """Return the large graph: each task with what is before it."""
    links = [*pairwise(_CREATE), *pairwise(_DELETE)]
    links += [(one, "search_catalog") for one in _CREATE] + [("search_catalog", one) for one in _DELETE]
    links += [(one, f"{one}_{result}") for one in _CREATE for result in ("result", "result2")]
    for path in _PATHS.strip().splitlines():
        links += pairwise(path.split())
    before: dict[str, list[str]] = {name: [] for link in links for name in link}
    for parent, child in dict.fromkeys(links):
        before[child].append(parent)
    return before


def _in_order(before: dict[str, list[str]]) -> Iterator[str]:
    """Yield names, each after what is before it."""
    waiting, done = dict(before), set[str]()
    while waiting:
        ready = [name for name, parents in waiting.items() if done.issuperset(parents)]
        yield from ready
        done.update(ready)
        for name in ready:
            del waiting[name]


def _few_failures(dag: Dag) -> Iterable[Script]:
    """Yield the runs in which at most two tasks fail: all 2^37 combinations are too many."""
    return all_scripts(dag, most_troubles=2)


_BEFORE = _catalog()
complex_ = Example(
    Dag(tuple(task(name, " ".join(_BEFORE[name])) for name in _in_order(_BEFORE))),
    [step(name, " ".join(parents)) for name, parents in _BEFORE.items()],
    scripts=_few_failures,
    orders=(forward, backward),
)
