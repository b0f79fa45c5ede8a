"""The verbs of the course: they cross rows, hold the rules, and raise quiz.errors. Keyword-only."""

from quiz.services.attempts import save_response, served_versions, start_attempt, submit_attempt
from quiz.services.grades import (
    ActivityProgress,
    Progress,
    correct_grade,
    progress_of,
    record_grade,
    set_manual_grade,
)
from quiz.services.idempotency import claim_key, forget_old_answers, keep_answer, release_key
from quiz.services.people import (
    choose_offering,
    enroll,
    enroll_oneself,
    issue_token,
    lock_enrollment,
    lock_learner,
    register_learner,
    visible_offerings,
)
from quiz.services.questions import publish_question, start_draft

__all__ = [
    "ActivityProgress",
    "Progress",
    "choose_offering",
    "claim_key",
    "correct_grade",
    "enroll",
    "enroll_oneself",
    "forget_old_answers",
    "issue_token",
    "keep_answer",
    "lock_enrollment",
    "lock_learner",
    "progress_of",
    "publish_question",
    "record_grade",
    "register_learner",
    "release_key",
    "save_response",
    "served_versions",
    "set_manual_grade",
    "start_attempt",
    "start_draft",
    "submit_attempt",
    "visible_offerings",
]
