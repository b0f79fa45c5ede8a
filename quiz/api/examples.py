"""Examples of the OpenAPI description. A test compares their shape with what the API really answers."""

from typing import Any

WHEN = "2026-03-02T09:30:00Z"
LATER = "2026-03-02T09:41:00Z"

CREDENTIALS = {"username": "ada", "password": "violet-turbine-41"}
LEARNER = {"public_id": "3f0f6a4e-54f5-4d3c-9d0e-2f8f3f1f9a11", "username": "ada", "is_staff": False}
TOKEN = {"token": "c1f0a3…", "expires_at": "2026-04-01T09:30:00Z", "learner": LEARNER}

COURSE = {
    "slug": "frontier-serving",
    "title": "Track 05: Serving past one model",
    "summary": "Experts, stages, loops and sessions.",
    "summary_html": "<p>Experts, stages, loops and sessions.</p>\n",
    "level": "advanced",
    "minutes": 25,
}
OFFERING = {
    "slug": "open",
    "title": "Open class",
    "course": COURSE,
    "self_enrolment": True,
    "is_open": True,
    "opens_at": None,
    "closes_at": None,
    "role": "learner",
}
MARK = {"score": "0.8000", "points": "4.00", "revision": 1, "manual": False, "updated_at": LATER}
LAB_TASK = {
    "slug": "moe-balance-hbm",
    "kind": "lab_task",
    "title": "Balance within an HBM budget",
    "points": "10.00",
}
CHECK = {"slug": "check", "kind": "quiz", "title": "Check", "points": "5.00"}
OFFERING_DETAIL = {
    **OFFERING,
    "course": {**COURSE, "sections": [{"position": 1, "slug": "opening", "title": "The unit of serving"}]},
    "activities": [
        {**LAB_TASK, "position": 1, "grade": None},
        {**CHECK, "position": 2, "grade": MARK},
    ],
    "progress": {"done": 1, "total": 2, "text": "1 / 2 done", "points": "4.00", "points_possible": "15.00"},
}
ENROLLMENT = {"offering": "open", "role": "learner", "created_at": WHEN}
SECTION = {
    "course": "frontier-serving",
    "position": 1,
    "slug": "opening",
    "title": "The unit of serving",
    "body": "A request used to be the unit …",
    "body_html": "<p>A request used to be the unit …</p>\n",
}
GRADE = {"offering": "open", "activity": CHECK, **MARK}
QUIZ = {
    "slug": "check",
    "title": "Check",
    "points": "5.00",
    "total": 5,
    "attempts_allowed": 3,
    "attempts": [
        {
            "public_id": "7d0b1c8e-93a1-4b9e-8a55-0a2f6f3f7e10",
            "offering": "open",
            "number": 1,
            "state": "open",
            "score": None,
            "started_at": WHEN,
            "submitted_at": None,
        }
    ],
}

ANSWER_WRITE = {"choice": "b", "confidence": 80, "sequence": 1}
ANSWER = {**ANSWER_WRITE, "updated_at": WHEN}


def option(choice: str, text: str) -> dict[str, str]:
    return {"choice": choice, "text": text, "text_html": f"<p>{text}</p>\n"}


QUESTION: dict[str, Any] = {
    "position": 1,
    "kind": "single_choice",
    "stem": "What does a block of KV hold?",
    "stem_html": "<p>What does a block of KV hold?</p>\n",
    "options": [option("a", "Logits of past tokens."), option("b", "Keys and values of past tokens.")],
    "response": ANSWER,
    "result": None,
}
RESULT = {
    "correct": True,
    "credit": "1.0000",
    "correct_choice": "b",
    "feedback": "Yes: a block holds both, for every layer.",
    "feedback_html": "<p>Yes: a block holds both, for every layer.</p>\n",
    "explanation": "Attention reads keys and values of all earlier tokens.",
    "explanation_html": "<p>Attention reads keys and values of all earlier tokens.</p>\n",
    "staff_points": ["KV grows with tokens, layers and KV heads."],
    "activity": LAB_TASK,
}
OPEN_ATTEMPT = {
    "public_id": "7d0b1c8e-93a1-4b9e-8a55-0a2f6f3f7e10",
    "quiz": "check",
    "title": "Check",
    "offering": "open",
    "number": 1,
    "state": "open",
    "started_at": WHEN,
    "submitted_at": None,
    "score": None,
    "answered": 1,
    "total": 1,
    "answered_text": "1 / 1 answered",
    "questions": [QUESTION],
    "calibration": None,
}
SUBMITTED_ATTEMPT = {
    **OPEN_ATTEMPT,
    "state": "submitted",
    "submitted_at": LATER,
    "score": "1.0000",
    "questions": [{**QUESTION, "result": RESULT}],
    "calibration": {
        "answers": 1,
        "mean_confidence": 80,
        "percent_correct": 100,
        "note": "You were 80% sure on average and right on 100% of one answer: too few to say how well you "
        "judge yourself.",
    },
}
