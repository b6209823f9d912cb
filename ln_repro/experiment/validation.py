"""Groups of settings: frozen and typed, with one line for each invalid value."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from ln_repro.errors import UserError

T = TypeVar("T", bound=BaseModel)


def _no_switch(value: Any) -> Any:
    """Refuse `true` where a number is wanted; pydantic would take it for 1."""
    if isinstance(value, bool):
        raise PydanticCustomError("switch", "input should be a number")
    return value


Number = Annotated[float, BeforeValidator(_no_switch), Field(allow_inf_nan=False)]
Positive = Annotated[Number, Field(gt=0)]
NotNegative = Annotated[Number, Field(ge=0)]
Fraction = Annotated[Number, Field(ge=0, lt=1)]
Whole = Annotated[int, BeforeValidator(_no_switch)]
Count = Annotated[Whole, Field(ge=1)]
Natural = Annotated[Whole, Field(ge=0)]


NOT_IN_ID, NOT_IN_ARM = "not in the id", "not in the arm key"
"""Marks of a field (`Annotated`): `Experiment.id` and `arm_key`, or `arm_key` alone, do not depend on it."""


class Section(BaseModel):
    """A frozen group of settings; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    def marked(self, *marks: str) -> dict[str, Any]:
        """Return the fields that have one of ``marks``, here and in the groups below, as pydantic's ``exclude``."""
        found: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            if any(mark in field.metadata for mark in marks):
                found[name] = True
            elif isinstance(value := getattr(self, name), Section):
                found[name] = value.marked(*marks)
        return found


def validate(kind: type[T], settings: Mapping[str, Any], prefix: str = "") -> T:
    """Build ``kind`` from plain settings, turning pydantic's report into one line."""
    try:
        return kind.model_validate(dict(settings))
    except ValidationError as error:
        raise UserError("; ".join(_explain(detail, prefix) for detail in error.errors())) from None


def _explain(detail: Any, prefix: str) -> str:
    """Return 'key: what is accepted, got value' for one of pydantic's complaints."""
    key = ".".join([*([prefix] if prefix else []), *(str(part) for part in detail["loc"])])
    message = detail["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    if detail["type"] == "extra_forbidden":
        return f"{key}: no such setting"
    if detail["type"] in ("value_error", "missing"):
        return message if detail["type"] == "value_error" else f"{key}: is not set"
    value = detail["input"]
    shown = "NaN" if isinstance(value, float) and math.isnan(value) else repr(value)
    return f"{key}: {message}, got {shown}"
