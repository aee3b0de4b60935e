// Compares convolution and pooling with direct calls of oneDNN.
//
// The peer of a convolution runs the same primitive on operands in the library's own layouts; the
// difference is the copies into and out of these. The peer of a pooling runs the library on plain
// layouts. Both run alternately; the results are medians.
//
//     convolution_bench [rounds]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/bind.h"
#include "kernels/kernel.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using dnnl::memory;

constexpr auto kF32 = memory::data_type::f32;

double seconds_of(const std::function<void()>& work) {
  const Clock::time_point begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

void report(const std::string& name, int rounds, double flops, const std::function<void()>& kernel,
            const std::function<void()>& peer) {
  std::vector<double> ours, theirs;
  for (int i = 0; i < rounds + 2; ++i) {
    const double mine = seconds_of(kernel), other = seconds_of(peer);
    if (i < 2) continue;  // the first rounds make code and touch memory
    ours.push_back(mine);
    theirs.push_back(other);
  }
  std::printf("%-52s %9.1f us %9.1f us   %.2f of it   %6.1f GFlop/s\n", name.c_str(),
              median(ours) * 1e6, median(theirs) * 1e6, median(theirs) / median(ours),
              flops / median(ours) * 1e-9);
}

/// A bound call with its memory.
class Bound {
 public:
  explicit Bound(const LocalCall& call)
      : kernel_(bind_kernel(call)), workspace_(kernel_.workspace) {
    for (const TensorType& type : call.inputs) inputs_.emplace_back(type);
    for (const TensorType& type : call.outputs) outputs_.emplace_back(type);
    float value = -2;
    for (Tensor& tensor : inputs_)
      for (float& x : tensor.values<float>()) x = value = value > 2 ? -2 : value + 0.0137f;
    for (const Tensor& tensor : inputs_) input_data_.push_back(tensor.data());
    for (Tensor& tensor : outputs_) output_data_.push_back(tensor.data());
  }
  void run() { kernel_.run({input_data_, output_data_, workspace_.data()}); }

 private:
  BoundKernel kernel_;
  AlignedBuffer workspace_;
  std::vector<Tensor> inputs_, outputs_;
  std::vector<const std::byte*> input_data_;
  std::vector<std::byte*> output_data_;
};

/// Square images and windows, padded to keep the extents at stride 1.
struct Shape2 {
  int64_t batch, in, out, extent, window, stride;

  int64_t padding() const { return window / 2; }
  int64_t places() const { return (extent + 2 * padding() - window) / stride + 1; }
  std::vector<int64_t> ints() const {
    std::vector<int64_t> list;
    for (int d = 0; d < 2; ++d)
      list.insert(list.end(), {window, stride, 1, padding(), extent, 0, 0});
    return list;
  }
  std::string text() const {
    return std::to_string(batch) + "x" + std::to_string(in) + "x" + std::to_string(extent) +
           "^2 -> " + std::to_string(out) + ", " + std::to_string(window) + "x" +
           std::to_string(window) + "/" + std::to_string(stride);
  }
};

/// The library's convolution in its own layouts.
struct Peer {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::primitive forward, to_input, to_weight;
  std::unordered_map<int, memory> forward_arguments, input_arguments, weight_arguments;

  explicit Peer(const Shape2& s) {
    const auto any = memory::format_tag::any;
    const memory::desc x({s.batch, s.in, s.extent, s.extent}, kF32, any),
        w({s.out, s.in, s.window, s.window}, kF32, any),
        y({s.batch, s.out, s.places(), s.places()}, kF32, any);
    const memory::dims strides{s.stride, s.stride}, padding{s.padding(), s.padding()};
    const auto direct = dnnl::algorithm::convolution_direct;
    const dnnl::convolution_forward::primitive_desc f(
        {dnnl::prop_kind::forward_training, direct, x, w, y, strides, padding, padding}, engine);
    const dnnl::convolution_backward_data::primitive_desc i(
        {direct, x, w, y, strides, padding, padding}, engine, f);
    const dnnl::convolution_backward_weights::primitive_desc b(
        {direct, x, w, y, strides, padding, padding}, engine, f);
    forward = dnnl::convolution_forward(f);
    to_input = dnnl::convolution_backward_data(i);
    to_weight = dnnl::convolution_backward_weights(b);
    forward_arguments = {{DNNL_ARG_SRC, filled(f.src_desc())},
                         {DNNL_ARG_WEIGHTS, filled(f.weights_desc())},
                         {DNNL_ARG_DST, filled(f.dst_desc())}};
    input_arguments = {{DNNL_ARG_DIFF_DST, filled(i.diff_dst_desc())},
                       {DNNL_ARG_WEIGHTS, filled(i.weights_desc())},
                       {DNNL_ARG_DIFF_SRC, filled(i.diff_src_desc())}};
    weight_arguments = {{DNNL_ARG_SRC, filled(b.src_desc())},
                        {DNNL_ARG_DIFF_DST, filled(b.diff_dst_desc())},
                        {DNNL_ARG_DIFF_WEIGHTS, filled(b.diff_weights_desc())}};
  }
  memory filled(const memory::desc& layout) const {
    memory tensor(layout, engine);
    std::fill_n(static_cast<float*>(tensor.get_data_handle()), layout.get_size() / sizeof(float),
                0.25f);
    return tensor;
  }
};

void convolutions(const Shape2& s, int rounds) {
  const TensorType x{DType::kF32, {s.batch, s.in, s.extent, s.extent}},
      w{DType::kF32, {s.out, s.in, s.window, s.window}},
      y{DType::kF32, {s.batch, s.out, s.places(), s.places()}};
  const double flops =
      2.0 * static_cast<double>(element_count(y.shape) * s.in * s.window * s.window);
  Peer peer(s);
  const auto beside = [&](const char* kernel, const LocalCall& call,
                          const dnnl::primitive& primitive, const auto& arguments) {
    Bound bound(call);
    report(
        std::string(kernel) + " " + s.text(), rounds, flops, [&] { bound.run(); },
        [&] { primitive.execute(peer.stream, arguments); });
  };
  beside("forward", {"convolution", s.ints(), {}, "", {x, w}, {y}}, peer.forward,
         peer.forward_arguments);
  beside("input  ", {"convolution_grad_input", s.ints(), {}, "", {y, w}, {x}}, peer.to_input,
         peer.input_arguments);
  beside("weight ", {"convolution_grad_weight", s.ints(), {}, "", {x, y}, {w}}, peer.to_weight,
         peer.weight_arguments);
}

void max_pool(const Shape2& s, int rounds) {
  const TensorType x{DType::kF32, {s.batch, s.in, s.extent, s.extent}},
      y{DType::kF32, {s.batch, s.in, s.places(), s.places()}};
  Bound bound({"max_pool", s.ints(), {}, "", {x}, {y}});
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const dnnl::stream stream(engine);
  const auto plain = memory::format_tag::nchw;
  const memory::desc from({s.batch, s.in, s.extent, s.extent}, kF32, plain),
      to({s.batch, s.in, s.places(), s.places()}, kF32, plain);
  const memory::dims strides{s.stride, s.stride}, padding{s.padding(), s.padding()},
      window{s.window, s.window};
  const dnnl::pooling_forward::primitive_desc description(
      {dnnl::prop_kind::forward_inference, dnnl::algorithm::pooling_max, from, to, strides, window,
       padding, padding},
      engine);
  const dnnl::pooling_forward pooling(description);
  const memory input(from, engine), output(to, engine);
  std::fill_n(static_cast<float*>(input.get_data_handle()), from.get_size() / sizeof(float), 0.25f);
  report(
      "max_pool " + s.text(), rounds,
      static_cast<double>(element_count(y.shape) * s.window * s.window), [&] { bound.run(); },
      [&] { pooling.execute(stream, {{DNNL_ARG_SRC, input}, {DNNL_ARG_DST, output}}); });
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using tessera::Shape2;
  const int rounds = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 31;
  tessera::use_one_thread_for_kernels();
  std::printf("%-52s %12s %12s\n", "", "kernel", "library");
  for (const Shape2& shape :
       {Shape2{32, 3, 16, 32, 3, 1}, Shape2{32, 16, 16, 32, 3, 1}, Shape2{32, 32, 32, 16, 3, 1},
        Shape2{32, 64, 64, 8, 3, 1}, Shape2{8, 64, 64, 56, 3, 1}, Shape2{8, 256, 64, 28, 1, 1},
        Shape2{8, 128, 256, 28, 3, 2}})
    tessera::convolutions(shape, rounds);
  for (const Shape2& shape : {Shape2{32, 64, 64, 32, 3, 2}, Shape2{32, 64, 64, 32, 3, 1}})
    tessera::max_pool(shape, rounds);
}
