#include "sharding/propagation/internal/open_ops.h"

namespace tessera {

OpenOps::OpenOps(const PropagationState& state)
    : is_op_open_(state.graph().ops().size(), true),
      is_value_open_(state.graph().values().size(), true),
      ops_of_(state.graph().values().size()) {
  for (int i = 0; i < std::ssize(state.graph().values()); ++i) {
    const Value& value = state.graph().value({i});
    std::vector<OpId>& ops = ops_of_[state.shared({i}).index];
    if (value.producer.index >= 0) ops.push_back(value.producer);
    ops.insert(ops.end(), value.users.begin(), value.users.end());
  }
}

void OpenOps::open(ValueId value) {
  is_value_open_[value.index] = true;
  for (OpId op : ops_of_[value.index]) is_op_open_[op.index] = true;
}

}  // namespace tessera
