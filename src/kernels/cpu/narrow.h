// Calls with operands of f16 or bf16, computed by the kernel of f32: operands are converted on the
// way in and results are rounded once on the way out. So every kernel takes these types, sums are
// in f32, and no kernel has code of its own for them unless it is faster.
#pragma once

#include "kernels/cpu/catalogue.h"
#include "kernels/element_types.h"

namespace tessera {

/// Has the call an operand or a result of f16 or bf16?
bool has_narrow_operands(const LocalCall& call);

/// Binds such a call.
///
///   moved        the kernel copies the bits
///   elementwise  pieces of kNarrowPiece elements are converted and computed one after another
///   computed     all operands are converted, and the results after the last
///   throws       as the binder of the entry
BoundKernel bind_narrow(const CatalogueEntry& entry, const LocalCall& call);

/// The workspace of bind_narrow(entry, call).
Bytes workspace_of_narrow(const CatalogueEntry& entry, const LocalCall& call);

/// The work of such a call: the arithmetic of products is of the type of their operands, whatever
/// computes it.
LocalWork work_of_narrow(const CatalogueEntry& entry, const LocalCall& call);

/// 4 KiB of f32 for each operand: the operands of a piece stay in the first-level cache.
inline constexpr int64_t kNarrowPiece = 1024;

}  // namespace tessera
