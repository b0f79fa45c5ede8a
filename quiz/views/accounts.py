"""Signing in, and making an account where the site lets anyone."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.password_validation import password_validators_help_texts
from django.contrib.auth.views import LoginView
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.html import format_html_join
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.safestring import SafeString
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from quiz import services
from quiz.api.throttling import RegistrationThrottle, SignInThrottle
from quiz.errors import InvalidInput

BACKEND = "django.contrib.auth.backends.ModelBackend"


class SignInView(LoginView):
    template_name = "accounts/login.html"

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if SignInThrottle().allow_request(request, None):
            return super().post(request, *args, **kwargs)
        messages.error(request, "Too many tries with this name. Wait a minute, then sign in.")
        unbound = self.get_form_class()(request)
        return self.render_to_response(self.get_context_data(form=unbound), status=429)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(open_registration=settings.STAFFLOOP_OPEN_REGISTRATION, **kwargs)


def password_rules() -> SafeString:
    return format_html_join("\n", "<li>{}</li>", ((text,) for text in password_validators_help_texts()))


class SignUpForm(forms.Form):
    """Asks; the service decides what is acceptable."""

    username = forms.CharField(
        max_length=150,
        help_text="Letters, digits and @ . + - _ only. Others do not see it, staff do.",
        widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none"}),
    )
    password = forms.CharField(
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rules = password_rules()
        self.fields["password"].help_text = SafeString(f"<ul>{rules}</ul>") if rules else ""


@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def sign_up(request: HttpRequest) -> HttpResponse:
    if not settings.STAFFLOOP_OPEN_REGISTRATION:
        raise Http404
    target = safe_target(request)
    form = SignUpForm(request.POST or None)
    if request.method == "POST" and not RegistrationThrottle().allow_request(request, None):
        messages.error(request, "Too many accounts were made from your network. Try again later.")
        return render(request, "accounts/signup.html", {"form": SignUpForm(), "next": target}, status=429)
    if request.method == "POST" and form.is_valid():
        try:
            learner = services.register_learner(**form.cleaned_data)
        except InvalidInput as exc:
            for pointer, text in exc.errors:
                form.add_error(pointer.lstrip("/"), text)
        else:
            login(request, learner, backend=BACKEND)
            messages.success(request, f"Welcome, {learner.get_username()}. Your account is made.")
            return redirect(target or settings.LOGIN_REDIRECT_URL)
    return render(
        request, "accounts/signup.html", {"form": form, "next": target}, status=400 if form.errors else 200
    )


def safe_target(request: HttpRequest) -> str:
    """Where to go afterwards, if it is a place on this site; else empty."""
    target = request.POST.get("next") or request.GET.get("next") or ""
    allowed = url_has_allowed_host_and_scheme(
        target, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return resolve_url(target) if target and allowed else ""
