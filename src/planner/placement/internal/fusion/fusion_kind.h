// What the kernel of a group of ops is.
#pragma once

#include <string_view>

namespace tessera {

enum class FusionKind {
  kElementwise,  // one loop nest over all elements
  kRows,         // reductions of rows, and what is element-wise over them or over their results
  kProduct,      // a product, with what is element-wise over its result or over one operand
  kAlone,        // one op, whose kernel is its own
};

std::string_view to_text(FusionKind kind);  // "element-wise", "rows", "product", "alone"

}  // namespace tessera
