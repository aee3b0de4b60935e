// Calls with operands of f16 or bf16, computed by the kernel of f32: operands are converted on the
// way in and results are rounded once on the way out. So every kernel takes these types, sums are
// in f32, and no kernel has code of its own for them unless it is faster.
#pragma once

#include "kernels/cpu/catalogue.h"
#include "kernels/element_types.h"

namespace tessera {

/// Has the call an operand or a result of f16 or bf16?
bool has_narrow_operands(const LocalCall& call);

/// Binds such a call. A kernel that moves elements copies the bits. Others run in f32, in pieces of
/// the leading dim where the rows of the results are independent: of products, convolutions,
/// attention and reductions in rows, and of element-wise kernels in single elements. So the
/// workspace has a piece of these operands, and all of the others, such as weights.
///   throws  as the binder of the entry
BoundKernel bind_narrow(const CatalogueEntry& entry, const LocalCall& call);

/// The workspace of bind_narrow(entry, call).
Bytes workspace_of_narrow(const CatalogueEntry& entry, const LocalCall& call);

/// The work of such a call: the arithmetic of products is of the type of their operands, whatever
/// computes it.
LocalWork work_of_narrow(const CatalogueEntry& entry, const LocalCall& call);

/// The elements of a piece of the largest operand, at least one row: 64 KiB of f32, which stay in
/// the second-level cache.
inline constexpr int64_t kNarrowPiece = 16384;

}  // namespace tessera
