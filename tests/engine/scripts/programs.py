"""Random Lua programs that end, and whose results depend on nothing but themselves.

Expressions mostly have the type that is asked for, so that most programs come far. Some have another, so that errors
and their texts are compared as well. No program shows an address, or the order of keys that are strings.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

_NUMBERS: Final = (
    "0",
    "1",
    "2",
    "3",
    "-1",
    "7",
    "10",
    "0.5",
    "-2.5",
    "1e15",
    "2^53",
    "1e308",
    "1/0",
    "100",
    "255",
    "0.1",
)
_WORDS: Final = (
    "",
    "a",
    "b",
    "hello world",
    "key=value",
    "12",
    "-3.5",
    "0x1f",
    "aXbXc",
    "  pad  ",
    "%d",
    "[x]",
    "a.b,c",
)
_NAMES: Final = ("a", "b", "c")
_PATTERNS: Final = (
    *("a", ".", "%a", "%d", "%w", "%s", "%p", "%u", "[abc]", "[^abc]", "[a-m]", "[%d%s]", "l", "o", "X", "=", "%%"),
    *("%.", "(%w)", "()", "(.)%1", "%b()", "%f[%w]", "[%]x]", "[", "%", "(", ")", "%1", "[a-]", "\\\\0", "^", "$"),
)
_REPEATS: Final = ("", "", "", "*", "+", "-", "?")
_FORMATS: Final = (
    *("%d", "%5d", "%-5d|", "%05d", "%+d", "%i", "%u", "%x", "%X", "%o", "%c", "%e", "%.3f", "%10.2f", "%g", "%.14g"),
    *("%s", "%10s", "%-10s|", "%.2s", "%q", "%%", "%5.1s", "%G", "%z", "%", "%.20s", "%#x", "% d", "%099d"),
)
_OPERATORS: Final = ("+", "-", "*", "/", "%", "^")
_COMPARISONS: Final = ("==", "~=", "<", "<=", ">", ">=")
_EVENTS: Final = (
    "__add",
    "__sub",
    "__mul",
    "__div",
    "__mod",
    "__pow",
    "__concat",
    "__eq",
    "__lt",
    "__le",
    "__call",
    "__unm",
)

_HEAD: Final = """
math.randomseed(7)
local shown = tostring
local function tostring(value)
    local kind = type(value)
    return (kind == "table" or kind == "function" or kind == "thread") and kind or shown(value)
end
local results, tables = {}, 0
local function out(...) results[#results + 1] = {...} end
local function kept(value)
    if type(value) == "string" then return (value:sub(1, 100)) end
    if type(value) == "table" then tables = tables + 1 end
    if type(value) == "table" and tables > 5 then return tables end
    return value
end
local function word(value) return type(value) == "number" and shown(value) or value end
local function key(value)
    return (type(value) == "table" or type(value) == "function" or type(value) == "thread") and 1 or value
end
"""
"""`tostring` shows no address, whose text a program could cut or turn round. `kept` bounds what is assigned: a loop
could double a string or a table at each turn. `key` has an order. `word` has the digits of Lua: Redis 7.0 writes more
of them into the words of a command than later versions do."""


class Program:
    """One random program.

    Args:
        random: draws it.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._locals = 0
        self._depth = 0

    def text(self) -> str:
        """A few blocks, of which each says what became of it."""
        blocks = " ".join(f"out(pcall(function(...) {self._block()} end, 5, 'x', nil))" for _ in range(self._roll(4)))
        return f"{_HEAD} {blocks} return results"

    def _roll(self, most: int) -> int:
        return self._random.randint(1, most)

    def _pick(self, *choices: Callable[[], str]) -> str:
        return self._random.choice(choices)()

    def _block(self) -> str:
        """Statements, and what is returned after them."""
        before = self._locals
        statements = " ".join(self._statement() for _ in range(self._roll(5)))
        results = ", ".join(self._any() for _ in range(self._roll(3)))
        self._locals = before
        return f"{statements} do return {results} end"

    def _body(self) -> str:
        before = self._locals
        statements = " ".join(self._statement() for _ in range(self._roll(3)))
        self._locals = before
        return statements

    def _statement(self) -> str:
        if self._depth > 3:
            return self._assignment()
        self._depth += 1
        text = self._pick(
            *(self._local, self._local, self._local, self._assignment, self._assignment, self._store, self._store),
            *(self._if, self._for, self._while, self._each, self._function, self._insert, self._sort, self._attempt),
            *(self._thread, self._metatable, self._replace_all, self._throw),
        )
        self._depth -= 1
        return text

    def _name(self) -> str:
        return f"v{self._random.randrange(self._locals)}" if self._locals else "(...)"

    def _new(self) -> str:
        self._locals += 1
        return f"v{self._locals - 1}"

    def _local(self) -> str:
        value = self._any()
        return f"local {self._new()} = kept({value});"

    def _assignment(self) -> str:
        return f"{self._name()} = kept({self._any()});" if self._locals else self._local()

    def _store(self) -> str:
        if not self._locals:
            return self._local()
        return f"{self._name()}[key({self._pick(self._number, self._string, self._small)})] = kept({self._any()});"

    def _if(self) -> str:
        return f"if {self._condition()} then {self._body()} else {self._body()} end"

    def _for(self) -> str:
        bounds = f"{self._small()}, {self._small()}, {self._random.choice(('1', '2', '-1', '0.5'))}"
        end = self._random.choice(("", "", "if true then break end"))
        before = self._locals
        text = f"for {self._new()} = {bounds} do {self._body()} {end} end"
        self._locals = before
        return text

    def _while(self) -> str:
        form = self._random.choice(
            ("while turn < 4 and {0} do turn = turn + 1 {1} end", "repeat turn = turn + 1 {1} until turn > 3 or {0}")
        )
        return f"do local turn = 0 {form.format(self._condition(), self._body())} end"

    def _each(self) -> str:
        walked = self._random.choice(("ipairs({0})", "pairs({{{1}, {1}, {1}}})", "string.gmatch({2}, {3})"))
        source = walked.format(self._table(), self._any(), self._string(), self._pattern())
        before = self._locals
        text = f"for {self._new()}, {self._new()} in {source} do {self._body()} end"
        self._locals = before
        return text

    def _function(self) -> str:
        before = self._locals
        name = self._new()
        function = f"local {name} {name} = function({self._new()}, {self._new()}, ...) {self._block()} end"
        self._locals = before + 1
        return f"{function} out(pcall({name}, {self._any()}, {self._any()}, {self._any()}))"

    def _insert(self) -> str:
        form = self._random.choice(
            ("table.insert({0}, kept({1}))", "table.insert({0}, {2}, kept({1}))", "table.remove({0}, {2})")
        )
        return (
            f"do local _ = {form.format(self._table(), self._any(), self._small())} end"
            if "remove" in form
            else (f"{form.format(self._table(), self._any(), self._small())};")
        )

    def _sort(self) -> str:
        items = ", ".join(self._number() for _ in range(self._roll(6)))
        order = self._random.choice(
            ("", ", function(x, y, ...) return x > y end", ", function(x, y, ...) return {0} end")
        )
        return f"do local items = {{{items}}} table.sort(items{order.format(self._condition())}) out(items) end"

    def _attempt(self) -> str:
        form = self._random.choice(
            ("pcall(function(...) {0} end)", "xpcall(function(...) {0} end, function(e, ...) return {1} end)")
        )
        # How often a handler that fails is called depends on how deep C's stack is, so it does not.
        return f"out({form.format(self._block(), f'select(2, pcall(function(...) return {self._any()} end, ...))')})"

    def _thread(self) -> str:
        body = f"local got = coroutine.yield({self._any()}) {self._body()} coroutine.yield(got) {self._block()}"
        resumed = " ".join(f"out(coroutine.resume(thread, {self._any()}), coroutine.status(thread))" for _ in range(4))
        wrapped = "local wrapped = coroutine.wrap(function(...) {0} end) for _ = 1, 4 do out(pcall(wrapped, {1})) end"
        created = f"local thread = coroutine.create(function(...) {body} end) {resumed}"
        return f"do {self._random.choice((created, wrapped.format(body, self._any())))} end"

    def _metatable(self) -> str:
        events = ", ".join(
            f"{self._random.choice(_EVENTS)} = function(x, y, ...) return {self._any()} end"
            for _ in range(self._roll(3))
        )
        index = self._random.choice(("", ", __index = {a = 1}", ", __index = function(t, k, ...) return k end"))
        return f"local {self._new()} = setmetatable({self._constructor()}, {{{events}{index}}});"

    def _replace_all(self) -> str:
        by = self._random.choice(("{0}", "{{a = 'z', l = 1, [1] = 2}}", "function(x, y, ...) return {1} end"))
        words = f"{self._string()}, {self._pattern()}, {by.format(self._string(), self._any())}"
        return f"out(pcall(string.gsub, {words}))"

    def _throw(self) -> str:
        level = self._random.choice(("", ", 0", ", 1", ", 2"))
        return f"if {self._condition()} then error({self._any()}{level}) end"

    def _any(self) -> str:
        return self._pick(
            self._number, self._string, self._condition, self._table, self._number, self._string, self._other
        )

    def _other(self) -> str:
        return self._random.choice(
            (
                *(
                    "nil",
                    "...",
                    self._name(),
                    self._name(),
                    f"type({self._name()})",
                    "select('#', ...)",
                    "(select(2, ...))",
                ),
                *(
                    f"rawequal({self._name()}, {self._name()})",
                    f"{self._name()}.a",
                    f"{self._name()}[1]",
                    "unpack({1, 2, 3})",
                ),
            )
        )

    def _small(self) -> str:
        return str(self._random.randint(-2, 5))

    def _number(self) -> str:
        self._depth += 1
        choices = [self._small, lambda: self._random.choice(_NUMBERS), self._name]
        if self._depth < 6:
            choices += [self._arithmetic, self._arithmetic, self._counted, self._counted]
        text = self._pick(*choices)
        self._depth -= 1
        return text

    def _arithmetic(self) -> str:
        return f"({self._number()} {self._random.choice(_OPERATORS)} {self._number()})"

    def _counted(self) -> str:
        form = self._random.choice(
            (
                *(
                    "#{2}",
                    "-({0})",
                    "math.floor({0})",
                    "math.max({0}, {1})",
                    "math.min({0}, {1})",
                    "math.fmod({0}, {1})",
                ),
                *("math.modf({0})", "math.abs({0})", "math.ceil({0})", "tonumber({2})", "tonumber({2}, 16)", "#{3}"),
                *(
                    "string.len({2})",
                    "string.byte({2}, {0})",
                    "math.random(10)",
                    "math.random()",
                    "select('#', {0}, {1})",
                ),
                *("bit.band({0}, {1})", "bit.bxor({0}, {1})", "table.maxn({3})", "table.getn({3})", "math.sqrt({0})"),
            )
        )
        return form.format(self._number(), self._number(), self._string(), self._table())

    def _string(self) -> str:
        self._depth += 1
        choices = [lambda: repr(self._random.choice(_WORDS)), self._name]
        if self._depth < 6:
            choices += [self._called_string, self._called_string, self._formatted, self._found]
        text = self._pick(*choices)
        self._depth -= 1
        return text

    def _called_string(self) -> str:
        form = self._random.choice(
            (
                *(
                    "({0} .. {1})",
                    "({0} .. {2})",
                    "string.sub({0}, {2}, {3})",
                    "string.rep({0}, {4})",
                    "string.upper({0})",
                ),
                *("string.lower({0})", "string.reverse({0})", "string.char({4}, 65)", "tostring({2})", "tostring({5})"),
                *("table.concat({{{0}, {2}, {1}}}, {1}, {4})", "({0}):sub({2})", "cjson.encode({{{2}, {0}}})"),
                *("cmsgpack.pack({2}, {0})", "struct.pack('>I2', {4})", "bit.tohex({2})", "string.rep({0}, {4}, {1})"),
            )
        )
        numbers = (self._number(), self._number(), self._small())
        return form.format(self._string(), self._string(), *numbers, self._condition())

    def _formatted(self) -> str:
        shape = self._random.choice(_FORMATS) + self._random.choice(("", " ", *_FORMATS))
        return f"string.format({shape!r}, {self._pick(self._number, self._string)}, {self._number()})"

    def _found(self) -> str:
        form = self._random.choice(
            ("string.match({0}, {1})", "string.find({0}, {1}, {2})", "string.find({0}, {3}, 1, true)")
        )
        return form.format(self._string(), self._pattern(), self._small(), self._string())

    def _pattern(self) -> str:
        parts = (self._random.choice(_PATTERNS) + self._random.choice(_REPEATS) for _ in range(self._roll(3)))
        return f'"{"".join(parts)}"'

    def _condition(self) -> str:
        form = self._random.choice(
            (
                "{0} {2} {1}",
                "{3} {2} {4}",
                "not {0}",
                "({0} and {3})",
                "({3} or {0})",
                "true",
                "false",
                "type({0}) == 'number'",
            )
        )
        compare = self._random.choice(_COMPARISONS)
        return f"({form.format(self._number(), self._number(), compare, self._string(), self._string())})"

    def _table(self) -> str:
        return self._pick(self._name, self._constructor, self._constructor)

    def _constructor(self) -> str:
        if self._depth > 4:
            return "{}"
        self._depth += 1
        items = [self._any() for _ in range(self._random.randint(0, 4))]
        if self._random.random() < 0.3:
            items.append(f"{self._random.choice(_NAMES)} = {self._any()}")
        self._depth -= 1
        return f"{{{', '.join(items)}}}"
