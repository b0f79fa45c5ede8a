"""Where authors write and staff grade: the stock admin, which works under the strict CSP."""

from quiz.admin.courses import ActivityAdmin, CourseAdmin, EnrollmentAdmin, OfferingAdmin, SectionAdmin
from quiz.admin.grades import GradeAdmin, GradeChangeAdmin
from quiz.admin.people import LearnerAdmin
from quiz.admin.questions import QuestionAdmin, QuestionVersionAdmin
from quiz.admin.quizzes import AttemptAdmin, QuizAdmin

__all__ = [
    "ActivityAdmin",
    "AttemptAdmin",
    "CourseAdmin",
    "EnrollmentAdmin",
    "GradeAdmin",
    "GradeChangeAdmin",
    "LearnerAdmin",
    "OfferingAdmin",
    "QuestionAdmin",
    "QuestionVersionAdmin",
    "QuizAdmin",
    "SectionAdmin",
]
