// Algebraic simplification: ops that change nothing, and pairs of ops that one op can replace.
#pragma once

#include "compiler/rewrite/internal/draft.h"

namespace tessera {

/// Applies only rules that keep every bit of every element, signed zeros and NaNs included:
///
///   x itself    mul by 1, mul_scalar by 1         x * 1 is x for every x
///               sub of +0                         -0 - +0 is -0
///               add of -0, add_scalar of -0       x + -0 is x for every x
///               add or sub of 0, of integers
///               and with true, or with false
///               neg(neg(x)), not(not(x))          they change the sign, or all bits, twice
///               select(c, x, x); a cast to the type of x; stop_gradient
///               reshape, transpose, broadcast, slice, pad and concat that move no element
///   one op      reshape(reshape(x)), transpose(transpose(x)), broadcast(broadcast(x)) when nothing
///               else reads the inner one
///
/// These are no rules, because they change bits: x + 0 (-0 becomes +0), 0 + x, x - x and x * 0 (of
/// infinities and NaNs), x / 1 and pow(x, 1) (a kernel may divide and take powers by
/// approximations), (x + a) + b and (x * a) * b (they round twice).
///
/// A replaced value and the value that replaces it have one type, and one of the two is alive
/// wherever the other one was: memory does not grow. No op moves to another stage.
///
///   ensures  a second run changes nothing
///   leaves   ops that are kept, results of the program, copies of variables that change (a step
///            may write the next value in place while the copy is read), and pairs of ops of two
///            roles or stages
///   time     O(ops)
void simplify_algebra(GraphDraft& draft);

}  // namespace tessera
