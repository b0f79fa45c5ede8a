"""Serializer fields that take JSON's own types alone. DRF's take "5" for 5, 5 for "5" and "yes" for true."""

from typing import Any

from rest_framework import serializers


class WholeNumber(serializers.IntegerField):
    default_error_messages = {"not_json": "Must be a whole number, as a JSON number."}

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("not_json")
        return super().to_internal_value(data)


class TrueOrFalse(serializers.BooleanField):
    default_error_messages = {"not_json": "Must be true or false."}

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("not_json")
        return data


class Words(serializers.CharField):
    default_error_messages = {"not_json": "Must be a text, as a JSON string."}

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("not_json")
        return super().to_internal_value(data)
