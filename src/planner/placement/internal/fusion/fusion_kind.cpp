#include "planner/placement/internal/fusion/fusion_kind.h"

#include "base/error.h"

namespace tessera {

std::string_view to_text(FusionKind kind) {
  switch (kind) {
    case FusionKind::kElementwise: return "element-wise";
    case FusionKind::kRows: return "rows";
    case FusionKind::kProduct: return "product";
    case FusionKind::kAlone: return "alone";
  }
  throw InternalError("a kind of groups without text");
}

}  // namespace tessera
