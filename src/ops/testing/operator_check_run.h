// What the checks of operator_check.h share. Test code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/testing/operator_check.h"

namespace tessera::testing {

Fill fill_of(const OperatorCase& given, size_t input);
/// Elements sampled under (key, stream).
ReferenceTensor sample_tensor(const TensorType& type, const Fill& fill, const std::string& key,
                              uint64_t stream);

/// A graph that knows the operators of the case.
Graph empty_graph(const OperatorCase& given);
/// A kernel of the case's own operators, or a built-in one.
BoundKernel bind_for(const OperatorCase& given, const LocalCall& call);

/// The op as its operator sees it. LiveRanges no longer than `given`.
OpView view_of(const Operator& op, const OperatorCase& given);
/// Zeros of the types of the results.
std::vector<ReferenceTensor> empty_results(const OpView& view);
/// LiveRanges no longer than its arguments.
ReferenceCall call_of(const OpView& view, const std::vector<ReferenceTensor>& inputs,
                      std::vector<ReferenceTensor>& outputs);

/// One rank has all of every factor.
std::vector<Split> undivided(const ShardingRule& rule);
std::vector<Tensor> run_kernel(const BoundKernel& kernel, const std::vector<Tensor>& inputs,
                               const std::vector<TensorType>& types);

/// "" when they agree element by element.
std::string first_difference(const ReferenceTensor& actual, const std::vector<double>& expected,
                             const std::vector<double>& tolerance);

}  // namespace tessera::testing
