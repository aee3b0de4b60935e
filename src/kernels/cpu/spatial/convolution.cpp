// convolution, convolution_grad_input, convolution_grad_weight: checks of the calls, and the cases
// without products.
#include "kernels/cpu/spatial/convolution.h"

#include <algorithm>
#include <optional>

#include "kernels/cpu/binders.h"
#include "kernels/cpu/common/operands.h"
#include "kernels/element_types.h"

namespace tessera {
namespace {

struct Tensors {
  const TensorType &x, &w, &y;
};

ConvolutionResult result_of(const LocalCall& call) {
  if (call.kernel == "convolution") return ConvolutionResult::kY;
  return call.kernel == "convolution_grad_input" ? ConvolutionResult::kX : ConvolutionResult::kW;
}

Tensors tensors_of(const LocalCall& call, ConvolutionResult result) {
  const TensorType &a = call.inputs[0], &b = call.inputs[1], &made = call.outputs[0];
  switch (result) {
    case ConvolutionResult::kY: return {a, b, made};
    case ConvolutionResult::kX: return {made, b, a};
    case ConvolutionResult::kW: return {a, made, b};
  }
  throw InternalError("unknown result of a convolution");
}

bool is_empty(const TensorType& type) {
  return element_count(type.shape) == 0;
}

/// Is any element of a window inside the operand?
bool has_products(const std::vector<LocalWindow>& dims) {
  return std::all_of(dims.begin(), dims.end(), [](const LocalWindow& dim) {
    for (int64_t w = 0; w < dim.window; ++w)
      if (!dim.places_of(w).empty()) return true;
    return false;
  });
}

void check(const LocalCall& call, const Tensors& tensors, const std::vector<LocalWindow>& dims) {
  const Shape &x = tensors.x.shape, &w = tensors.w.shape, &y = tensors.y.shape;
  require_operands(call, 2, 1, dims.size() * kIntsOfWindow);
  require(call, is_kernel_float(tensors.w.dtype) && w.size() == x.size(), "w has the dims of x");
  require(call, x[0] == y[0] && y[1] == w[0],
          "x and y have the same batch, y and w the same channels");
  require(call,
          w[1] == 0 ? x[1] == 0 : x[1] % w[1] == 0 && w[0] % std::max<int64_t>(x[1] / w[1], 1) == 0,
          "channels fall into groups");
  for (size_t d = 0; d < dims.size(); ++d)
    require(call, w[d + 2] == dims[d].window, "the window is that of the parameters");
}

/// nullopt when no element of a window is inside the operand, so that nothing is multiplied.
std::optional<ConvolutionShape> shape_of(const Tensors& tensors,
                                         const std::vector<LocalWindow>& dims) {
  if (is_empty(tensors.x) || is_empty(tensors.w) || is_empty(tensors.y) || !has_products(dims))
    return std::nullopt;
  const int64_t groups = tensors.x.shape[1] / tensors.w.shape[1];
  return ConvolutionShape{tensors.x.shape[0], groups, tensors.w.shape[1],
                          tensors.w.shape[0] / groups, dims};
}

}  // namespace

BoundKernel bind_convolution(const LocalCall& call) {
  require_operands(call, 2, 1, call.ints.size());
  const ConvolutionResult result = result_of(call);
  const Tensors tensors = tensors_of(call, result);
  const std::vector<LocalWindow> dims = local_windows(call, tensors.x, tensors.y);
  check(call, tensors, dims);
  const std::optional<ConvolutionShape> shape = shape_of(tensors, dims);
  if (!shape) {
    const auto fill = [count = output_count(call)](const KernelBuffers& buffers) {
      std::fill_n(output<float>(buffers, 0), count, 0.0f);
    };
    return {fill, Bytes(0)};
  }
  const auto prepared = std::make_shared<PreparedConvolution>(*shape, result);
  const auto run = [prepared](const KernelBuffers& buffers) {
    prepared->run(input<float>(buffers, 0), input<float>(buffers, 1), output<float>(buffers, 0),
                  buffers.workspace);
  };
  return {run, convolution_workspace(*shape)};
}

namespace {

std::string_view ragged_name(std::string_view kernel) {
  if (kernel == "convolution") return "convolution.ragged";
  return kernel == "convolution_grad_input" ? "convolution_grad_input.ragged"
                                            : "convolution_grad_weight.ragged";
}

}  // namespace

/// A multiplication and an addition for each element of y, input channel of its group and element
/// of the window. Those in the padding count too.
/// A pixel of the result is a piece. Channels that do not fill vectors are a way of their own.
LocalWork work_of_convolution(const LocalCall& call) {
  const Tensors tensors = tensors_of(call, result_of(call));
  const Shape& w = tensors.w.shape;
  double products = elements_of(tensors.y);
  for (int d = 1; d < w.size(); ++d) products *= static_cast<double>(w[d]);
  LocalWork work = work_over_operands(call, OperationClass::kConvolution, 2 * products);
  work.pieces = elements_of(tensors.y) / static_cast<double>(std::max<int64_t>(w[0], 1));
  constexpr int64_t kVector = 16;
  if (w[0] % kVector != 0 || w[1] % kVector != 0) work.kernel = ragged_name(call.kernel);
  return work;
}

Bytes workspace_of_convolution(const LocalCall& call) {
  const Tensors tensors = tensors_of(call, result_of(call));
  const auto shape = shape_of(tensors, local_windows(call, tensors.x, tensors.y));
  return shape ? convolution_workspace(*shape) : Bytes(0);
}

}  // namespace tessera
