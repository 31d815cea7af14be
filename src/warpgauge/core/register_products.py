"""Products of matrices that stay in the processor's registers, for the compiled loops of :mod:`warpgauge.core.tiles`.

A linear algebra library writes the product ``W k`` of a factor and a kernel to memory, where it is read again to be
squared and summed. Here a block of 6 rows times `COLUMNS` columns is summed in vector registers and squared there; that
is the whole gain, and on a processor that the library does not know it is twofold. numba has no vector types, so the
few instructions are written in the compiler's own language.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

# Points side by side in one panel of a kernel: a row of 32 doubles for each annotation.
PANEL = 32
# Rows of a factor that are multiplied at a time, shared among the components that they belong to.
ROWS = 6
_UNALIGNED = 8
_FUSED = ("contract",)


class RegisterLoop:
    """A loop over columns of a factor that numba is told about when a compiled loop first needs it.

    ``finish(emitter, sums)`` emits what becomes of ``sums[component][row][vector]``.
    """

    def __init__(self, components: int, rows: int, finish: Callable[[_Emitter, Any], None]) -> None:
        self.components, self.rows, self.finish = components, rows, finish

    def __call__(self, *arguments: Any) -> None:
        """Refuse: without the compiler there are no registers."""
        raise TypeError("only compiled loops can call a loop over registers")

    @cached_property
    def _numba_type_(self) -> Any:
        """What numba asks for where a compiled loop calls this one."""
        from numba.core import types
        from numba.core.registry import cpu_target
        from numba.extending import intrinsic

        def loop(typing: Any, factor: Any, offset: Any, kernel: Any, first: Any, own: Any, columns: Any, out: Any,
                 column: Any, b: Any) -> Any:  # fmt: skip
            def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                _Emitter(context, builder, signature, arguments).emit(self)
                return context.get_dummy_value()

            return types.void(factor, offset, kernel, first, own, columns, out, column, b), emit

        known = intrinsic(loop)
        cpu_target.typing_context.refresh()
        return cpu_target.typing_context.resolve_value_type(known)


class _Emitter:
    """Writes the instructions of one loop: sums over columns in registers, then what becomes of them."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        from llvmlite import binding, ir  # type: ignore[import-untyped,unused-ignore]

        # 24 sums in 32 wide registers, or 12 in 16 narrow ones; beside them a row of the kernel and one number.
        wide = bool(binding.get_host_cpu_features().get("avx512f"))
        self.lanes, self.vectors = (8, 4) if wide else (4, 2)
        self.ir, self.builder = ir, builder
        self.vector = ir.VectorType(ir.DoubleType(), self.lanes)
        factor, self.offset, kernel, self.first, self.own, self.columns, out, self.column, self.b = arguments
        self.factor, self.kernel = (
            context.make_array(kind)(context, builder, array).data
            for kind, array in ((signature.args[0], factor), (signature.args[2], kernel))
        )
        written = context.make_array(signature.args[6])(context, builder, out)
        self.out = written.data
        self.out_width = builder.extract_value(written.shape, 1)

    def number(self, value: int) -> Any:
        return self.ir.Constant(self.own.type, value)

    def emit(self, loop: RegisterLoop) -> None:
        """Emit the sums for every part of a panel, and what becomes of them."""
        from numba.core import cgutils

        b = self.builder
        width = self.lanes * self.vectors
        for part in range(PANEL // width):
            self.part = b.add(self.first, self.number(part * width))
            self.to = b.add(self.column, self.number(part * width))
            zero = self.ir.Constant(self.vector, [0.0] * self.lanes)
            places = [
                [[cgutils.alloca_once(b, self.vector) for _ in range(self.vectors)] for _ in range(loop.rows)]
                for _ in range(loop.components)
            ]
            for place in (one for rows in places for vectors in rows for one in vectors):
                b.store(zero, place)
            self._sum(self.offset, self.number(0), self.own, places)
            if loop.components > 1:
                passed = b.mul(self.own, self.number(loop.components * loop.rows))
                self._sum(b.add(self.offset, passed), self.own, self.columns, places[:-1])
            loop.finish(self, [[[b.load(place) for place in vectors] for vectors in rows] for rows in places])

    def _sum(self, offset: Any, start: Any, stop: Any, places: Any) -> None:
        """Emit a loop over columns ``start:stop`` whose numbers of the factor start at ``offset``."""
        from numba.core import cgutils

        b = self.builder
        rows = [row for component in places for row in component]
        with cgutils.for_range(b, stop, start=start) as loop:
            at = b.add(offset, b.mul(b.sub(loop.index, start), self.number(len(rows))))
            below = b.add(self.part, b.mul(loop.index, self.number(PANEL)))
            kernel = [self.load(self.kernel, b.add(below, self.number(v * self.lanes))) for v in range(self.vectors)]
            for number, row in enumerate(rows):
                factor = self.spread(b.load(b.gep(self.factor, [b.add(at, self.number(number))])))
                for value, place in zip(kernel, row, strict=True):
                    b.store(self.plus_product(b.load(place), factor, value), place)

    def spread(self, value: Any) -> Any:
        """One number in every lane."""
        undefined, ints = self.ir.Constant(self.vector, self.ir.Undefined), self.ir.IntType(32)
        single = self.builder.insert_element(undefined, value, self.ir.Constant(ints, 0))
        everywhere = self.ir.Constant(self.ir.VectorType(ints, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(single, undefined, everywhere)

    def plus_product(self, total: Any, one: Any, other: Any) -> Any:
        return self.builder.fadd(self.builder.fmul(one, other, flags=_FUSED), total, flags=_FUSED)

    def minus_product(self, total: Any, one: Any, other: Any) -> Any:
        return self.builder.fsub(total, self.builder.fmul(one, other, flags=_FUSED), flags=_FUSED)

    def load(self, data: Any, index: Any) -> Any:
        value = self.builder.load(self._place(data, index))
        value.align = _UNALIGNED
        return value

    def store(self, value: Any, data: Any, index: Any) -> None:
        self.builder.store(value, self._place(data, index)).align = _UNALIGNED

    def _place(self, data: Any, index: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(data, [index]), self.vector.as_pointer())

    def out_index(self, row: Any, vector: int) -> Any:
        b = self.builder
        return b.add(b.mul(row, self.out_width), b.add(self.to, self.number(vector * self.lanes)))


def _put(emitter: _Emitter, sums: Any) -> None:
    """Put the sums of each row into a row of ``out``."""
    for row, vectors in enumerate(sums[0]):
        for v, value in enumerate(vectors):
            emitter.store(value, emitter.out, emitter.out_index(emitter.number(row), v))


def _subtract_products(emitter: _Emitter, sums: Any) -> None:
    """Subtract the products of two components' sums, added over the rows, from the pair's row of ``out``."""
    b = emitter.builder
    for one in range(len(sums)):
        for other in range(one, len(sums)):
            # Pairs in the order (0, 0), (0, 1) .. (0, b - 1), (1, 1) ..
            row = b.add(b.mul(emitter.number(one), emitter.b), emitter.number(other - one - one * (one - 1) // 2))
            for v in range(emitter.vectors):
                at = emitter.out_index(row, v)
                total = emitter.load(emitter.out, at)
                for left, right in zip(sums[one], sums[other], strict=True):
                    total = emitter.minus_product(total, left[v], right[v])
                emitter.store(total, emitter.out, at)


# Called with (factor, offset, kernel, first, own, columns, out, column, b): numbers of a factor from ``offset`` on,
# column by column, and a panel of the kernel whose rows start at ``first``. The last component has numbers for the
# columns below ``own``, those before it for all of ``columns``.
sums_of_2 = RegisterLoop(1, 2, _put)
sums_of_3 = RegisterLoop(1, 3, _put)
subtract_1 = RegisterLoop(1, ROWS, _subtract_products)
subtract_2 = RegisterLoop(2, ROWS // 2, _subtract_products)
subtract_3 = RegisterLoop(3, ROWS // 3, _subtract_products)
