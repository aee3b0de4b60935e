// Functions for the checks of operator_check.h. Test code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/ops/internal/rounding.h"
#include "ir/ops/testing/operator_check.h"

namespace tessera::operator_testing {

Fill fill_of(const OperatorCase& given, size_t input);
/// A tensor whose elements are sampled under (key, stream).
ReferenceTensor sample_tensor(const TensorType& type, const Fill& fill, const std::string& key,
                              uint64_t stream);

/// A graph with the operators of the case.
Graph empty_graph(const OperatorCase& given);
/// A kernel of the case's own operators, or a built-in one.
BoundKernel bind_for(const OperatorCase& given, const LocalCall& call);
/// The kernels of the case's own operators; nullptr: none.
const KernelSet* own_kernels(const OperatorCase& given);

/// The view that the operator has of the op. `given` outlives it.
OpView view_of(const Operator& op, const OperatorCase& given);
/// Tensors of zeros with the types of the results.
std::vector<ReferenceTensor> empty_results(const OpView& view);
/// The call of the reference. The arguments outlive it.
ReferenceCall call_of(const OpView& view, const std::vector<ReferenceTensor>& inputs,
                      std::vector<ReferenceTensor>& outputs);

/// The splits of a rank that has all of every factor.
std::vector<Split> undivided(const ShardingRule& rule);
std::vector<Tensor> run_kernel(const BoundKernel& kernel, const std::vector<Tensor>& inputs,
                               const std::vector<TensorType>& types);

/// The elements of a result of the reference as a tensor of its type holds them, where the type is
/// f16 or bf16.
std::vector<double> held(ReferenceTensor result);

/// Describes the first element that differs; "" when all agree.
std::string first_difference(const ReferenceTensor& actual, const std::vector<double>& expected,
                             const std::vector<double>& tolerance);

}  // namespace tessera::operator_testing
