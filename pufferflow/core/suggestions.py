"""Suggestions in errors: the name nearest to a misspelt one, and what to type instead of a call that does not fit."""

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import wraps
from pathlib import PurePath
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pufferflow.core.errors import NoSuchAttribute, NoSuchCall, PufferflowError
from pufferflow.core.other_libraries import ARGUMENTS, ATTRIBUTES, EXAMPLES, FRAMES, PREFIXES, SCANS, VERBS

T = TypeVar("T")
_LONG: Final = 3


def instead_of_argument(callee: str, name: str) -> str:
    """Return what to type instead of an argument that a callable here does not have; nothing if it is in no table.

    >>> instead_of_argument("private_sum", "alias")
    'name="load"'
    """
    known = ARGUMENTS.get("private" if callee.startswith("private_") else callee, {})
    return known.get(name, "")


def instead_of_attribute(kind: str, name: str) -> str:
    """Return what to type instead of an attribute that a class does not have; nothing if it is in no table.

    >>> instead_of_attribute("Batch", "dp_sum"), instead_of_attribute("Release", "collect")
    ('private_sum("level")', 'release.frame')
    """
    known = ATTRIBUTES.get(kind, {})
    if name in known:
        return known[name]
    bare = next((name.removeprefix(prefix) for prefix in PREFIXES if name.startswith(prefix)), "")
    return known[bare] if bare in VERBS and kind in ("Batch", "Puffer") else ""


def way_to_protect(given: object) -> str:
    """Return how something that is no Polars frame becomes one; its library is not imported, nor its rows read.

    >>> way_to_protect({"level": [0, 1]}), way_to_protect("rows.csv")
    ('pf.protect(pl.DataFrame(frame), scenario)', 'pf.protect(pl.scan_csv(frame), scenario)')
    """
    kind = type(given)
    parts = kind.__module__.split(".")
    tried = [f"{parts[0]}.{kind.__name__}", *(".".join(parts[:count]) for count in range(len(parts), 0, -1))]
    found = next((FRAMES[one] for one in tried if one in FRAMES), "")
    if isinstance(given, str | PurePath) and PurePath(given).suffix[1:] in SCANS:
        return found.replace("scan_parquet", SCANS[PurePath(given).suffix[1:]])
    return found or "pf.protect(pl.scan_parquet(path), scenario)"


def noun(kind: str) -> str:
    """Return what a value of a class is called at the beginning of a sentence.

    >>> noun("Batch"), noun("Puffer")
    ('A batch', 'frame.puffer')
    """
    return {"Puffer": "frame.puffer"}.get(kind, f"A {kind.lower()}")


def nearest(given: object, known: Iterable[str], count: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the names that are spelled most like the one given, the nearest first, or begin with it.

    Upper case counts for nothing.

    >>> nearest("distrct", ["meter", "district"]), nearest("GWM", ["gwm", "exact"]), nearest("load", ["district"])
    (['district'], ['gwm'], [])
    """
    if not isinstance(given, str):
        return []
    folded, wanted = {name.casefold(): name for name in known}, given.casefold()
    found = difflib.get_close_matches(wanted, folded, count, cutoff)
    begun = [name for name in folded if name.startswith(wanted) and len(wanted) >= _LONG]
    return [folded[name] for name in found or begun[:count]]


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """Return the suggestion that follows a misspelt name, with a space before it; nothing if no name is near.

    >>> did_you_mean("adjacant", ["all", "adjacent"])
    " Did you mean 'adjacent'?"
    """
    return "".join(f" Did you mean {name!r}?" for name in nearest(given, known))


def suggests_arguments(thing: T) -> T:
    """Decorate a function or a class so that its refusal of an unknown argument suggests the ones that it takes.

    Signature, docstring and type stay, for editors and for doctest.
    """
    if isinstance(thing, FunctionType):
        return cast(T, _with_suggestions(thing))
    init = vars(thing).get("__init__")
    if isinstance(init, FunctionType):
        setattr(thing, "__init__", _with_suggestions(init))  # noqa: B010 - pyright knows no such method of a T
    return thing


def call_or_refuse(
    function: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any], refusal: Callable[[str], NoSuchCall]
) -> Any:
    """Call a function; if it does not take such arguments, raise the refusal made of Python's own message."""
    try:
        return function(*args, **given)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise  # from within the function, not from binding its arguments
        why = str(error)
    raise refusal(why)


def make_struct(struct: Any, make: Callable[..., T], args: tuple[Any, ...], given: Mapping[str, Any]) -> T:
    """Return a new struct, whose fields are its parameters."""
    return call_or_refuse(make, args, given, lambda why: misfit(struct.__name__, struct.__struct_fields__, given, why))


def _with_suggestions(function: FunctionType) -> Callable[..., Any]:
    # in the closure, since `call` gets the globals of another module
    attempt, refusal, reworded, errors = call_or_refuse, wrong_call, in_own_words, PufferflowError

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return attempt(function, args, kwargs, lambda why: refusal(function, args, kwargs, why))
        except errors as error:
            reworded(error, args[0] if args else None)
            raise

    # doctest takes a function for one of a module if its globals are the module's
    own = FunctionType(call.__code__, function.__globals__, function.__name__, None, call.__closure__)
    return wraps(function)(own)


def wrong_call(function: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any], why: str) -> NoSuchCall:
    """Return the error for arguments that a function does not take; `why` is Python's own message."""
    callee = type(args[0]).__name__ if function.__name__ == "__init__" else function.__name__
    known = inspect.signature(function).parameters.values()
    parameters = [item.name for item in known if item.name not in ("self", "cls") and item.kind is not item.VAR_KEYWORD]
    return misfit(callee, parameters, given, why)


def misfit(callee: str, parameters: Iterable[str], given: Mapping[str, Any], why: str) -> NoSuchCall:
    """Return the error for arguments that do not fit the parameters of a function or class of this name."""
    known = list(parameters)
    called = f"pf.{callee}" if callee[:1].isupper() or callee == "protect" else callee
    unknown = next((name for name in given if name not in known), None)
    if unknown is None:
        said = why.partition("() ")[2] or f"{why[:1].lower()}{why[1:]}"
        example = EXAMPLES.get(callee, f"{called}({', '.join(known)})")
        return NoSuchCall(f"{called}() {said}.", allowed=f"{called}({', '.join(known)})", instead=example)
    elsewhere, near = instead_of_argument(callee, unknown), nearest(unknown, known)
    question = "" if elsewhere else did_you_mean(unknown, known)
    instead = elsewhere or (f"{near[0]}=…" if near else EXAMPLES.get(callee, ""))
    return NoSuchCall(f"{called}() has no argument {unknown!r}.{question}", allowed=", ".join(known), instead=instead)


class HelpfulAttributes:
    """Base of classes that are mistaken for frames: errors about missing names and arguments suggest what to type.

    >>> class Batch(HelpfulAttributes):
    ...     pass
    >>> hasattr(Batch(), "collect")
    False
    """

    def _own_examples(self) -> Mapping[str, str]:
        """Return what stands for parts of examples, such as a column of this value for "level"."""
        return {}

    def __init_subclass__(cls) -> None:
        for name, function in list(vars(cls).items()):
            if isinstance(function, FunctionType) and not name.startswith("_"):
                setattr(cls, name, _with_suggestions(function))

    if not TYPE_CHECKING:  # editors and type checkers know the names that there are

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):
                return object.__getattribute__(self, name)  # a property failed: let its own error be seen
            raise in_own_words(no_attribute(type(self), name), self)

        def __getitem__(self, key: Any) -> Any:
            del key
            raise in_own_words(_no_frame(type(self), "[…]"), self)

        def __len__(self) -> int:
            raise in_own_words(_no_frame(type(self), "len()"), self)

        def __bool__(self) -> bool:
            return True


E = TypeVar("E", bound=PufferflowError)


def in_own_words(error: E, value: object) -> E:
    """Return an error whose examples name the columns of the value that it is about."""
    own: Mapping[str, str] = {}
    if isinstance(value, HelpfulAttributes):
        with suppress(Exception):  # examples are not worth another error
            own = value._own_examples()  # pyright: ignore[reportPrivateUsage] # noqa: SLF001
    if own:
        parts = re.compile("|".join(map(re.escape, sorted(own, key=len, reverse=True))))
        error.reword(lambda text: parts.sub(lambda found: own[found[0]], text))
    return error


def no_attribute(kind: type, name: str) -> AttributeError:
    """Return the error for an attribute that a class does not have; of Python's protocols the plain one."""
    if name.startswith("_"):
        return AttributeError(f"{kind.__name__!r} object has no attribute {name!r}", name=name, obj=None)
    fields = getattr(kind, "__dataclass_fields__", ())
    known = sorted(one for one in {*fields, *dir(kind)} if not one.startswith("_"))
    instead = instead_of_attribute(kind.__name__, name)
    near = nearest(name, known)
    return NoSuchAttribute(
        f"{noun(kind.__name__)} has no {name!r}.{'' if instead else did_you_mean(name, known)}",
        allowed=", ".join(known),
        instead=instead or (EXAMPLES.get(near[0], near[0]) if near else ""),
        name=name,
    )


def _no_frame(kind: type, what: str) -> NoSuchCall:
    return NoSuchCall(
        f"{noun(kind.__name__)} has no {what}: it is no frame.", instead=instead_of_attribute(kind.__name__, what)
    )


def no_public_name(name: str, known: Iterable[str]) -> AttributeError:
    """Return the error for a name that `pf` does not have, in Python's words and with what was probably meant."""
    problem = f"module 'pufferflow' has no attribute {name!r}"
    names = [one for one in known if not one.startswith("_")]
    near, instead = nearest(name, names), instead_of_attribute("pufferflow", name)
    if name.startswith("_") or not (near or instead):
        return AttributeError(problem, name=name, obj=None)
    said = did_you_mean(name, names)
    return NoSuchAttribute(
        f"{problem}.{'' if instead else said}", instead=instead or ", ".join(f"pf.{one}" for one in near), name=name
    )
