"""A course is data: loading it from files."""

import shutil
import tomllib
from io import StringIO
from pathlib import Path

import pytest
from django.apps import apps
from django.conf import settings
from django.core.management import CommandError, call_command

from quiz import services
from quiz.models import (
    Activity,
    Course,
    Grade,
    LoadedFile,
    Offering,
    Question,
    QuestionVersion,
    Quiz,
    Section,
)
from tests.quiz.builders import enrolled, make_course, make_learner

pytestmark = pytest.mark.django_db
FIXTURE = settings.BASE_DIR / "fixtures" / "frontier-serving"
# Index of the check among the activities: it comes after the tasks of all labs.
CHECK = len(tomllib.loads((FIXTURE / "course.toml").read_text())["activities"]) - 1


@pytest.fixture
def folder(tmp_path) -> Path:
    return Path(shutil.copytree(FIXTURE, tmp_path / "course"))


def load(folder: Path, **options) -> None:
    call_command("load_course", folder, stdout=StringIO(), **options)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new, 1))


def served(slug: str) -> QuestionVersion:
    version = Question.objects.get(slug=slug).current_version()
    assert version is not None
    return version


def everything() -> dict[str, list[tuple]]:
    """All rows of the app, as they stand."""
    return {
        model.__name__: list(model._default_manager.order_by("pk").values_list())
        for model in apps.get_app_config("quiz").get_models()
    }


def test_the_track_arrives_whole():
    load(FIXTURE)
    course = Course.objects.get()
    assert list(course.sections.values_list("slug", flat=True)) == [
        *("opening", "experts", "stages", "loops", "sessions")
    ]
    activities = list(course.activities.values_list("slug", "kind", "points"))
    assert activities[0] == ("moe-balance-hbm", "lab_task", 10)
    assert activities[CHECK] == ("check", "quiz", 5)
    assert {kind for _, kind, _ in activities[:CHECK]} == {"lab_task"}
    offering = Offering.objects.get()
    assert (offering.slug, offering.self_enrolment, offering.is_open) == ("open", True, True)


def test_the_check_asks_five_complete_questions_and_each_links_to_its_lab_where_there_is_one():
    load(FIXTURE)
    versions = services.served_versions(Quiz.objects.get())
    assert len(versions) == 5
    for version in versions:
        assert version.options.count() == 4
        assert version.options.filter(correct=True).count() == 1
        assert not version.options.filter(feedback="").exists()
        assert version.staff_points
    linked = [v.question.activity and v.question.activity.slug for v in versions]
    assert linked == [
        "moe-balance-hbm",
        "moe-predict-straggler",
        "multimodal-warm-turn-2",
        None,
        "agent-best-throughput",
    ]


def test_the_right_answers_are_not_all_in_one_place():
    load(FIXTURE)
    keys = [v.options.get(correct=True).key for v in services.served_versions(Quiz.objects.get())]
    assert len(set(keys)) >= 3


def test_no_option_of_the_first_question_claims_anything_about_bandwidth():
    load(FIXTURE)
    first = services.served_versions(Quiz.objects.get())[0]
    texts = " ".join(first.options.values_list("text", flat=True))
    assert "bandwidth" not in texts.lower()


def test_loading_twice_changes_nothing():
    load(FIXTURE)
    before = everything()
    load(FIXTURE)
    assert everything() == before


def test_forcing_an_unchanged_course_publishes_nothing_new():
    load(FIXTURE)
    load(FIXTURE, force=True)
    assert QuestionVersion.objects.count() == 5


def test_what_an_author_edited_stays_while_the_file_has_not_changed():
    load(FIXTURE)
    Section.objects.filter(slug="experts").update(body="Better words.")
    draft = services.start_draft(question=Question.objects.get(slug="second-turn"))
    draft.stem = "Better words?"
    draft.save()
    services.publish_question(version=draft)
    load(FIXTURE)
    assert Section.objects.get(slug="experts").body == "Better words."
    assert draft.question.current_version() == draft


def test_a_changed_question_is_published_as_the_next_version_and_others_stay(folder):
    load(folder)
    edit(folder / "questions" / "second-turn.toml", "Image embeddings", "Picture embeddings")
    load(folder)
    assert served("second-turn").number == 2
    assert QuestionVersion.objects.count() == 6


def test_an_authors_draft_survives_a_changed_file_and_is_newer_when_published(folder):
    load(folder)
    draft = services.start_draft(question=Question.objects.get(slug="second-turn"))
    edit(folder / "questions" / "second-turn.toml", "Image embeddings", "Picture embeddings")
    load(folder)
    assert served("second-turn").number == 3
    services.publish_question(version=draft)
    assert draft.question.current_version() == draft


def test_a_comment_in_a_question_file_publishes_nothing(folder):
    load(folder)
    edit(folder / "questions" / "second-turn.toml", "stem", "# A note to authors.\nstem")
    load(folder)
    assert QuestionVersion.objects.count() == 5


def test_sections_and_activities_change_places(folder):
    load(folder)
    (folder / "sections" / "05-sessions.md").rename(folder / "sections" / "00-sessions.md")
    edit(folder / "course.toml", "minutes = 25", "minutes = 30")
    listed = (folder / "course.toml").read_text().partition("[[quizzes]]")[0]
    _head, lab, *_others, check = listed.split("[[activities]]")
    swapped = listed.replace(lab, "\n@").replace(check, lab).replace("\n@", check)
    edit(folder / "course.toml", listed, swapped)
    load(folder)
    assert Section.objects.order_by("position").values_list("slug", flat=True)[0] == "sessions"
    slugs = list(Activity.objects.order_by("position").values_list("slug", flat=True))
    assert (slugs[0], slugs[-1]) == ("check", "moe-balance-hbm")


def test_loading_leaves_attempts_and_grades_as_they_are(folder):
    load(folder)
    offering, quiz = Offering.objects.get(), Quiz.objects.get()
    learner = enrolled(make_learner(), offering)
    attempt, _ = services.start_attempt(learner=learner, quiz=quiz, offering=offering)
    services.save_response(attempt=attempt, position=3, choice="d", confidence=60, sequence=1)
    services.submit_attempt(attempt=attempt)
    names = ("Attempt", "Response", "Grade", "GradeChange", "Enrollment", "Learner")
    before = {name: rows for name, rows in everything().items() if name in names}
    edit(folder / "questions" / "second-turn.toml", "Image embeddings", "Picture embeddings")
    edit(folder / "course.toml", '    "second-turn",\n', "")
    edit(folder / "course.toml", '    "total-and-active",\n', '    "second-turn",\n    "total-and-active",\n')
    load(folder)
    assert {name: rows for name, rows in everything().items() if name in names} == before
    assert Grade.objects.get().score > 0


@pytest.mark.parametrize(
    ("file", "old", "new", "fault"),
    [
        ("course.toml", "minutes = 25", "minutes = -1", "course.toml: minutes: "),
        ("course.toml", 'level = "advanced"', "hours = 3", "course.toml: hours: "),
        ("course.toml", 'points = "5"', 'points = "-5"', f"course.toml: activities.{CHECK}.points: "),
        ("course.toml", 'kind = "quiz"', 'kind = "essay"', f"course.toml: activities.{CHECK}.kind: "),
        ("course.toml", 'activity = "check"', 'activity = "exam"', "course.toml: quizzes.0.activity: "),
        ("course.toml", '"second-turn"', '"third-turn"', "course.toml: quizzes.0.questions.2: "),
        ("course.toml", 'slug = "check"', 'slug = "moe-balance-hbm"', "course.toml: activities: "),
        ("course.toml", "slug =", "slug", "course.toml: file: "),
        ("course.toml", 'title = "', 'title = "\\u0000', "course.toml: title: has characters"),
        ("sections/02-experts.md", "title =", "heading =", "sections/02-experts.md: title: "),
        ("sections/02-experts.md", "+++", "---", "sections/02-experts.md: file: "),
        (
            "questions/second-turn.toml",
            "correct = true",
            "correct = false",
            "questions/second-turn.toml: options: ",
        ),
        ("sections/02-experts.md", "e", "\0", "sections/02-experts.md: "),
        ("sections/02-experts.md", "\n\n", "\n\n\0", "sections/02-experts.md: body: has characters"),
        ("questions/second-turn.toml", "stem =", "stam =", "questions/second-turn.toml: stem: "),
        (
            "questions/second-turn.toml",
            '"multimodal-warm-turn-2"',
            '"x"',
            "questions/second-turn.toml: activity: ",
        ),
        (
            "questions/second-turn.toml",
            "[[options]]\ntext",
            '[[options]]\ntext = "Fifth."\nfeedback = " "\n[[options]]\ntext',
            "questions/second-turn.toml: options.0.feedback: ",
        ),
    ],
)
def test_a_fault_names_its_file_and_field_and_nothing_is_loaded(folder, file, old, new, fault):
    edit(folder / file, old, new)
    with pytest.raises(CommandError) as caught:
        load(folder)
    assert any(line.startswith(fault) for line in str(caught.value).splitlines()), caught.value
    assert not any(rows for rows in everything().values())


def test_a_question_that_no_quiz_asks_is_a_fault(folder):
    shutil.copy(folder / "questions" / "second-turn.toml", folder / "questions" / "stray.toml")
    with pytest.raises(CommandError, match=r"questions/stray\.toml: file"):
        load(folder)


def test_a_missing_folder_is_a_fault_and_no_traceback(tmp_path):
    with pytest.raises(CommandError, match=r"course\.toml: file"):
        load(tmp_path / "nowhere")


def test_an_activity_of_another_course_is_not_taken_over():
    other = make_course("other")
    Activity.objects.create(course=other, kind="quiz", slug="check", position=1, title="Check", points=1)
    with pytest.raises(CommandError, match=rf"activities\.{CHECK}\.slug"):
        load(FIXTURE)
    assert not Course.objects.filter(slug="frontier-serving").exists()
    assert not LoadedFile.objects.exists()
