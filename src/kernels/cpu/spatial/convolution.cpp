// convolution, convolution_grad_input, convolution_grad_weight: checks of the calls, and the cases
// without products.
#include "kernels/cpu/spatial/convolution.h"

#include <algorithm>
#include <array>
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

/// The ways to compute a convolution, each with code of its own in the library.
enum class Method : uint8_t { kFull, kRagged, kFewChannels, kStrided, kPointwise, kDepthwise };

/// In the order of ConvolutionResult and of Method; no gradient of x has few channels, and nothing
/// else a stride.
constexpr std::array<std::array<std::string_view, 6>, 3> kNames{{
    {"convolution", "convolution.ragged", "convolution.few_channels", "", "convolution.pointwise",
     "convolution.depthwise"},
    {"convolution_grad_input", "convolution_grad_input.ragged", "",
     "convolution_grad_input.strided", "convolution_grad_input.pointwise",
     "convolution_grad_input.depthwise"},
    {"convolution_grad_weight", "convolution_grad_weight.ragged",
     "convolution_grad_weight.few_channels", "", "convolution_grad_weight.pointwise",
     "convolution_grad_weight.depthwise"},
}};

std::string_view name_of(ConvolutionResult result, Method way) {
  return kNames[static_cast<size_t>(result)][static_cast<size_t>(way)];
}

/// The channels of a vector of the library.
constexpr int64_t kVector = 16;

int64_t whole_vectors(int64_t channels) {
  return (channels + kVector - 1) / kVector * kVector;
}

Method way_of(const ConvolutionShape& shape, ConvolutionResult result) {
  if (shape.groups > 1 && shape.in == 1 && shape.out == 1) return Method::kDepthwise;
  const bool is_pointwise = std::ranges::all_of(
      shape.dims, [](const LocalWindow& dim) { return dim.window == 1 && dim.stride == 1; });
  if (is_pointwise) return Method::kPointwise;
  const auto has_stride = [](const LocalWindow& dim) { return dim.stride > 1; };
  if (result == ConvolutionResult::kX && std::ranges::any_of(shape.dims, has_stride))
    return Method::kStrided;  // a loop over every n pixels
  // A vector of channels of y meets the channels of x one by one, in the layout of the caller.
  if (shape.groups == 1 && shape.in < kVector && result != ConvolutionResult::kX)
    return Method::kFewChannels;
  return shape.in % kVector == 0 && shape.out % kVector == 0 ? Method::kFull : Method::kRagged;
}

/// The pairs of a position of the window and an element of it, of one dim, that are in the operand.
double products_inside(const LocalWindow& dim) {
  int64_t sum = 0;
  for (int64_t w = 0; w < dim.window; ++w) sum += dim.places_of(w).size();
  return static_cast<double>(sum);
}

/// The channels of all groups of x and of y, and their pairs within the groups, in whole vectors.
struct VectorChannels {
  double x, y, pairs;

  VectorChannels(const ConvolutionShape& shape, Method way) {
    const auto groups = static_cast<double>(shape.groups);
    if (way == Method::kDepthwise) {
      x = y = pairs = static_cast<double>(whole_vectors(shape.groups));
      return;
    }
    const int64_t in = way == Method::kFewChannels ? shape.in : whole_vectors(shape.in),
                  out = whole_vectors(shape.out);
    x = groups * static_cast<double>(in);
    y = groups * static_cast<double>(out);
    pairs = groups * static_cast<double>(in * out);
  }
};

RowWork rows_of(const ConvolutionShape& shape, ConvolutionResult result, Method way) {
  const VectorChannels channels(shape, way);
  const auto batch = static_cast<double>(shape.batch);
  double products = 1, row = 1, window = 1, image = 1, positions = 1;
  for (const LocalWindow& dim : shape.dims) {
    const double inside = products_inside(dim);
    products *= inside;
    // A pointwise kernel takes all pixels of an image for a row.
    row = inside / static_cast<double>(dim.window) * (way == Method::kPointwise ? row : 1);
    window *= static_cast<double>(dim.window);
    image *= static_cast<double>(dim.in);
    positions *= static_cast<double>(dim.out);
  }
  const double x = way == Method::kFewChannels ? 0 : batch * channels.x * image,
               y = batch * channels.y * positions;
  // The gradient of the weights is read and written for each image before it is copied.
  const double w = (result == ConvolutionResult::kW ? 2 : 1) * channels.pairs * window;
  return {Flops(2 * batch * channels.pairs * products), Flops(2 * kVector * kVector * row),
          Bytes(static_cast<int64_t>(4 * (x + w + y)))};
}

}  // namespace

/// A multiplication and an addition for each element of y, input channel of its group and element
/// of the window. Those in the padding count too.
/// A pixel of the result is a piece, where rates are not by rows.
LocalWork work_of_convolution(const LocalCall& call) {
  const ConvolutionResult result = result_of(call);
  const Tensors tensors = tensors_of(call, result);
  const Shape& w = tensors.w.shape;
  double products = elements_of(tensors.y);
  for (int d = 1; d < w.size(); ++d) products *= static_cast<double>(w[d]);
  LocalWork work = work_over_operands(call, OperationClass::kConvolution, 2 * products);
  work.pieces = elements_of(tensors.y) / static_cast<double>(std::max<int64_t>(w[0], 1));
  const auto shape = shape_of(tensors, local_windows(call, tensors.x, tensors.y));
  if (!shape) return work;
  const Method way = way_of(*shape, result);
  work.kernel = name_of(result, way);
  work.rows = rows_of(*shape, result, way);
  double all = 1, inside = 1;
  for (const LocalWindow& dim : shape->dims) {
    all *= static_cast<double>(dim.window * dim.out);
    inside *= products_inside(dim);
  }
  work.padding = Flops(work.flops.value() * (1 - inside / all));
  return work;
}

Bytes workspace_of_convolution(const LocalCall& call) {
  const Tensors tensors = tensors_of(call, result_of(call));
  const auto shape = shape_of(tensors, local_windows(call, tensors.x, tensors.y));
  return shape ? convolution_workspace(*shape) : Bytes(0);
}

}  // namespace tessera
