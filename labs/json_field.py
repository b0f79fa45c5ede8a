"""A form field for JSON that an author types: what cannot be read or stored is an error at the field."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput, JSONString

from quiz import storable
from simworkers import strict_json


class StorableJSONField(forms.JSONField):
    """Django's gives up with a RecursionError on deep nesting, and lets NaN and repeated keys through."""

    def to_python(self, value: Any) -> Any:
        if (
            self.disabled
            or value in self.empty_values
            or isinstance(value, JSONString | list | dict | int | float)
        ):
            return super().to_python(value)
        try:
            parsed = strict_json.parse(value)
        except RecursionError:
            raise ValidationError(f"is nested more than {storable.MAX_DEPTH} levels deep") from None
        except ValueError as exc:
            raise ValidationError(f"is not JSON: {exc}") from exc
        if faults := [f"{pointer}: {text}" if pointer else text for pointer, text in storable.faults(parsed)]:
            raise ValidationError(faults)
        # A string would be shown without its quotation marks, and be another value when it is read again.
        return JSONString(parsed) if isinstance(parsed, str) else parsed

    def bound_data(self, data: Any, initial: Any) -> Any:
        """What was typed, to be shown again beside its error."""
        if self.disabled or data is None:
            return super().bound_data(data, initial)
        try:
            return self.to_python(data)
        except ValidationError:
            return InvalidJSONInput(data)
