"""The course: people, content, questions, attempts and grades."""

from quiz.models.attempts import Attempt, Response
from quiz.models.content import LoadedFile
from quiz.models.course import Activity, Course, Enrollment, Offering, Section
from quiz.models.grades import Grade, GradeChange
from quiz.models.idempotency import KeyedAnswer
from quiz.models.people import Learner
from quiz.models.questions import Option, Question, QuestionVersion, Quiz, QuizQuestion

__all__ = [
    "Activity",
    "Attempt",
    "Course",
    "Enrollment",
    "Grade",
    "GradeChange",
    "KeyedAnswer",
    "Learner",
    "LoadedFile",
    "Offering",
    "Option",
    "Question",
    "QuestionVersion",
    "Quiz",
    "QuizQuestion",
    "Response",
    "Section",
]
