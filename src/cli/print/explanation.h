// What there is to say about a compiled plan, gathered as data: the printers of text and of JSON
// read the same.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"

namespace tessera {

/// How a value lies.
struct ValueFacts {
  std::string name;
  std::string placement;  // "f32[32@dp, 4096@tp]"
  std::string local;      // the type at rank 0
  Bytes bytes{0};         // at rank 0, which holds the largest part
  std::string reason;     // "" when nothing divides it
};
ValueFacts facts_of(const Graph& graph, const ShardedGraph& sharded, ValueId value);

/// One exchange of a step.
struct CommunicationFacts {
  Role role = Role::kForward;
  std::string kind;  // "all-reduce", ...
  std::string value;
  std::string from, to;  // "[@dp, *]"
  Bytes bytes{0};        // that a rank receives: of all ranks the most
  Bytes least{0};        // that it would have to receive by any way
  std::string reason;
};
/// In the order of the step.
std::vector<CommunicationFacts> communications_of(const TaskGraph& tasks);

/// One operand or result of an op.
struct OperandFacts {
  std::string role;  // "input 0", "result 0"
  ValueFacts value;
  std::string wanted;  // the placement that the op takes or makes: "[@dp, *]"
  std::string wanted_local;
  std::string reshard;  // kind of the reshard between the two; "" when they are the same
};
struct OpFacts {
  std::string text;  // as it stands in the serial graph
  std::vector<OperandFacts> operands;
};
OpFacts facts_of(const Graph& graph, const ShardedGraph& sharded, OpId op);

}  // namespace tessera
