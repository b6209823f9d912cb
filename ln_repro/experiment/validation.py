"""Base class and types for groups of settings, with validation errors of one line."""

import difflib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from ln_repro.errors import UserError
from ln_repro.system.files import Json
from ln_repro.system.paths import expanded

T = TypeVar("T", bound=BaseModel)


def _no_boolean(value: Any) -> Any:
    """Reject a boolean where a number is expected; pydantic would convert it."""
    if isinstance(value, bool):
        raise PydanticCustomError("switch", "input should be a number")
    return value


Number = Annotated[float, BeforeValidator(_no_boolean), Field(allow_inf_nan=False)]
Positive = Annotated[Number, Field(gt=0)]
NotNegative = Annotated[Number, Field(ge=0)]
Fraction = Annotated[Number, Field(ge=0, lt=1)]
Whole = Annotated[int, BeforeValidator(_no_boolean)]
MOST = 10**12  # larger than any useful number, and small enough for the libraries that take it
Count = Annotated[Whole, Field(ge=1, le=MOST)]
Natural = Annotated[Whole, Field(ge=0, le=MOST)]
UserPath = Annotated[Path, AfterValidator(expanded)]  # a path in which ``~`` is the home folder
FileName = Annotated[str, Field(pattern=r"^[^/.\p{Cc}\p{Zl}\p{Zp}][^/\p{Cc}\p{Zl}\p{Zp}]*$")]
"""A name on one line that does not lead out of its folder and is not hidden."""


NOT_IN_ID, NOT_IN_ARM = "not in the id", "not in the arm key"
"""Marks for fields (in `Annotated`) that are not part of `Experiment.id` and `arm_key`, or of `arm_key` alone."""


class Section(BaseModel):
    """A frozen group of settings; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    @classmethod
    def options(cls, prefix: str = "") -> dict[str, FieldInfo]:
        """Return the fields by their dotted names, with those of nested sections instead of the sections."""
        fields: dict[str, FieldInfo] = {}
        for name, field in cls.model_fields.items():
            if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
                fields |= field.annotation.options(f"{prefix}{name}.")
            else:
                fields[f"{prefix}{name}"] = field
        return fields

    def marked(self, *marks: str) -> Json:
        """Return the fields with one of ``marks``, including nested ones, in the form of pydantic's ``exclude``."""
        fields: Json = {}
        for name, field in type(self).model_fields.items():
            if any(mark in field.metadata for mark in marks):
                fields[name] = True
            elif isinstance(value := getattr(self, name), Section):
                fields[name] = value.marked(*marks)
        return fields


def validate(kind: type[T], settings: Mapping[str, object], prefix: str = "") -> T:
    """Create a ``kind`` from plain settings; raise `UserError` with one line if pydantic finds errors."""
    try:
        return kind.model_validate(dict(settings))
    except ValidationError as error:
        names = [*kind.options()] if issubclass(kind, Section) else []
        raise UserError("; ".join(_explain(detail, prefix, names) for detail in error.errors())) from None


def nearest(name: str, names: Sequence[str]) -> str:
    """Return the end of a message about an unknown name: the names that it is part of or similar to, or some of all."""
    word = name.rpartition(".")[2].removesuffix("s")
    begun = [known for known in names if name and known.startswith(name)]
    within = [known for known in names if "." in known and word and word in known.rpartition(".")[2]]
    close = begun or [*within, *difflib.get_close_matches(name, names, n=3, cutoff=0.5)]
    if close:
        return f"; nearest: {', '.join(dict.fromkeys(close[:4]))}"
    some = names if len(names) <= 30 else names[:4]
    return f"; known: {', '.join(some)}" + (f" and {len(names) - 4} more" if len(names) > 30 else "")


def _explain(detail: Any, prefix: str, names: Sequence[str]) -> str:
    """Return 'key: what is accepted, got value' for one of pydantic's error details; ``names`` are the options."""
    option = ".".join(map(str, detail["loc"]))
    key = f"{prefix}.{option}" if prefix else option
    message = detail["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:].replace("valid tuple", "list")
    if detail["type"] == "extra_forbidden":
        return f"{key}: no such option{nearest(option, names) if names else ''}"
    if detail["type"] in ("value_error", "missing"):
        return message if detail["type"] == "value_error" else f"{key}: is not set"
    value = detail["input"]
    shown = "NaN" if isinstance(value, float) and math.isnan(value) else repr(value)
    return f"{key}: {message.partition(', got')[0]}, got {shown}"
