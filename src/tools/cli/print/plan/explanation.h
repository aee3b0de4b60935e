// The facts that `tessera explain` prints about a compiled plan, for text and for JSON.
#pragma once

#include <string>
#include <vector>

#include "training/engine/engine.h"

namespace tessera {

/// The placement of a value.
struct ValueFacts {
  std::string name;
  std::string placement;   // "f32[32@dp, 4096@tp]"
  Rank rank = 0;           // the first one of its mesh
  std::string local;       // the type at that rank
  Bytes bytes_at_rank{0};  // at that rank
  Bytes bytes{0};          // of the largest part, which without weights is that of the first rank
  std::string reason;      // "" when it is replicated because no mark reaches it
};
/// The reason as text for readers.
std::string reason_text(const ValueFacts& facts);
ValueFacts facts_of(const Graph& graph, const ShardedGraph& sharded, ValueId value);

/// One tensor of an exchange of a step.
struct CommunicationFacts {
  Role role = Role::kForward;
  std::string kind;  // "all-reduce", ...
  std::string value;
  std::string from, to;  // "[@dp, *]"
  /// The mesh axes over which the placement changes: "tp", "dp,tp"; "" when the meshes differ.
  std::string axes;
  Bytes bytes{0};          // received by a rank; the maximum over the ranks
  Bytes smallest{0};       // the minimum that any algorithm would have to receive
  std::string reason;      // "op 'y' needs the full sum"
  int64_t exchange = 0;    // the number of the exchange in the step; combined tensors have the same
  MeshIndex mesh{0};       // of the ranks that receive
  RegisterIndex received;  // what is filled

  /// A slice of what a rank has is not.
  bool is_sent() const { return bytes > Bytes(0); }
};
/// The kind as text: "all-reduce over tp".
std::string kind_text(const CommunicationFacts& facts);
/// The tensors of the exchanges in the order of the step.
std::vector<CommunicationFacts> communications_of(const TaskGraph& tasks);

/// One operand or result of an op.
struct OperandFacts {
  std::string role;  // "input 0", "result 0"
  ValueFacts value;
  std::string wanted;  // the placement that the op reads or writes: "[@dp, *]"
  std::string wanted_local;
  std::string reshard;  // kind of the reshard between the two; "" when they are the same
};
struct OpFacts {
  std::string text;   // the line of the op in the serial graph
  std::string stage;  // "stage1, ranks 2-3"; "" where the plan has one mesh
  std::vector<OperandFacts> operands;
};
OpFacts facts_of(const Graph& graph, const ShardedGraph& sharded, OpId op);

}  // namespace tessera
