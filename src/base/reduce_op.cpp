#include "base/reduce_op.h"

#include "base/error.h"

namespace tessera {
namespace {

constexpr ReduceOp kReduceOps[] = {ReduceOp::kSum,  ReduceOp::kMax, ReduceOp::kMin,
                                   ReduceOp::kProd, ReduceOp::kAny, ReduceOp::kAll};

}  // namespace

std::string_view to_text(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return "sum";
    case ReduceOp::kMax: return "max";
    case ReduceOp::kMin: return "min";
    case ReduceOp::kProd: return "prod";
    case ReduceOp::kAny: return "any";
    case ReduceOp::kAll: return "all";
  }
  throw InternalError("unknown reduction");
}

ReduceOp parse_reduce_op(std::string_view text) {
  for (ReduceOp op : kReduceOps)
    if (text == to_text(op)) return op;
  throw UserError("'" + std::string(text) + "' is not a reduction",
                  "reductions are sum, max, min, prod, any and all", "use one of these",
                  ExitCode::kBadData);
}

}  // namespace tessera
