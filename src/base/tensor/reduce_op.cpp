#include "base/tensor/reduce_op.h"

#include <string>

#include "base/error.h"

namespace tessera {

ReduceOp parse_reduce_op(std::string_view text) {
  for (const ReduceOpTraits& op : kReduceOps)
    if (text == op.text) return op.op;
  throw UserError("'" + std::string(text) + "' is not a reduction",
                  "reductions are sum, max, min, prod, any and all", "use one of these",
                  ExitCode::kBadData);
}

}  // namespace tessera
