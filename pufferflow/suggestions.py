"""What was probably meant: the name nearest to a misspelt one, and what to type instead of a call that does not fit."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pufferflow.errors import NoSuchAttribute, NoSuchCall
from pufferflow.habits import EXAMPLES, instead_of_argument, instead_of_attribute, noun

T = TypeVar("T")
_CUTOFF = 0.6
_LONG = 3


def nearest(given: object, known: Iterable[str], count: int = 1, cutoff: float = _CUTOFF) -> list[str]:
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
    """Return the question that follows a misspelt name, with a space before it; nothing if no name is near.

    >>> did_you_mean("adjacant", ["all", "adjacent"])
    " Did you mean 'adjacent'?"
    """
    return "".join(f" Did you mean {name!r}?" for name in nearest(given, known))


def explained(thing: T) -> T:
    """Decorate a function or a class: arguments that it does not take are answered with those that it does.

    Signature, docstring and type stay, for editors and for doctest.
    """
    if isinstance(thing, FunctionType):
        return cast(T, _explained(thing))
    init = vars(thing).get("__init__")
    if isinstance(init, FunctionType):
        setattr(thing, "__init__", _explained(init))  # noqa: B010 - pyright knows no such method of a T
    return thing


def answered(
    function: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any], refusal: Callable[[str], NoSuchCall]
) -> Any:
    """Return what a function gives; if it does not take such arguments, raise the refusal made of what Python says."""
    try:
        return function(*args, **given)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise  # from within the function, not from binding its arguments
        why = str(error)
    raise refusal(why)


def made(struct: Any, make: Callable[..., T], args: tuple[Any, ...], given: Mapping[str, Any]) -> T:
    """Return a new struct, whose fields are its parameters."""
    return answered(make, args, given, lambda why: misfit(struct.__name__, struct.__struct_fields__, given, why))


def _explained(function: FunctionType) -> Callable[..., Any]:
    attempt, refusal = answered, wrong_call  # in the closure, since `call` gets the globals of another module

    def call(*args: Any, **kwargs: Any) -> Any:
        return attempt(function, args, kwargs, lambda why: refusal(function, args, kwargs, why))

    # doctest takes a function for one of a module if its globals are the module's
    own = FunctionType(call.__code__, function.__globals__, function.__name__, None, call.__closure__)
    return wraps(function)(own)


def wrong_call(function: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any], why: str) -> NoSuchCall:
    """Return the error for arguments that a function does not take; `why` is what Python says of them."""
    callee = type(args[0]).__name__ if function.__name__ == "__init__" else function.__name__
    known = inspect.signature(function).parameters.values()
    parameters = [one.name for one in known if one.name not in ("self", "cls") and one.kind is not one.VAR_KEYWORD]
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
    near = nearest(unknown, known)
    instead = instead_of_argument(callee, unknown) or (f"{near[0]}=…" if near else EXAMPLES.get(callee, ""))
    question = "" if instead_of_argument(callee, unknown) else did_you_mean(unknown, known)
    return NoSuchCall(f"{called}() has no argument {unknown!r}.{question}", allowed=", ".join(known), instead=instead)


class Suggesting:
    """Base of what is mistaken for a frame: names and arguments that it does not have are answered with the way out.

    >>> class Batch(Suggesting):
    ...     pass
    >>> hasattr(Batch(), "collect")
    False
    """

    def __init_subclass__(cls) -> None:
        for name, function in list(vars(cls).items()):
            if isinstance(function, FunctionType) and not name.startswith("_"):
                setattr(cls, name, _explained(function))

    if not TYPE_CHECKING:  # editors and type checkers know the names that there are

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):
                return object.__getattribute__(self, name)  # a property failed: let its own error be seen
            raise no_attribute(type(self), name)

        def __getitem__(self, key: Any) -> Any:
            del key
            raise _no_frame(type(self), "[…]")

        def __len__(self) -> int:
            raise _no_frame(type(self), "len()")

        def __bool__(self) -> bool:
            return True


def no_attribute(kind: type, name: str) -> AttributeError:
    """Return the error for an attribute that values of a kind do not have; those of Python's protocols say no more."""
    if name.startswith("_"):
        return AttributeError(f"{kind.__name__!r} object has no attribute {name!r}", name=name, obj=None)
    fields = getattr(kind, "__dataclass_fields__", ())
    known = sorted(one for one in {*fields, *dir(kind)} if not one.startswith("_"))
    instead = instead_of_attribute(kind.__name__, name)
    near = nearest(name, known)
    return NoSuchAttribute(
        f"{noun(kind.__name__)} has no {name!r}.{'' if instead else did_you_mean(name, known)}",
        allowed=", ".join(known),
        instead=instead or (near[0] if near else ""),
        name=name,
    )


def _no_frame(kind: type, what: str) -> NoSuchCall:
    return NoSuchCall(
        f"{noun(kind.__name__)} has no {what}: it is no frame.", instead=instead_of_attribute(kind.__name__, what)
    )


def no_name_at_the_door(name: str, known: Iterable[str]) -> AttributeError:
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
