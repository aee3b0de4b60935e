// Compares the speed of kernels with a bound that is measured in the same run.
//
// Each benchmark alternates between the kernel and its peer. The column `of_peer` is the kernel's
// speed as a fraction of the peer's: raw dnnl_sgemm for products, memcpy of as many bytes for
// kernels bound by memory. Ratios stay meaningful on a busy machine.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstring>
#include <limits>

#include "kernels/bind.h"
#include "kernels/kernel.h"
#include "oneapi/dnnl/dnnl.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& work) {
  const Clock::time_point begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Runs both alternately and reports the kernel's best time, and the peer's best as a fraction of
// it.
void compare(benchmark::State& state, const std::function<void()>& kernel,
             const std::function<void()>& peer) {
  double best_kernel = std::numeric_limits<double>::infinity(), best_peer = best_kernel;
  kernel();
  peer();
  for (auto _ : state) {
    best_peer = std::min(best_peer, seconds_of(peer));
    const double seconds = seconds_of(kernel);
    best_kernel = std::min(best_kernel, seconds);
    state.SetIterationTime(seconds);
  }
  state.counters["best_us"] = best_kernel * 1e6;
  state.counters["of_peer"] = best_peer / best_kernel;
}

// A bound call with its memory.
class Bench {
 public:
  explicit Bench(const LocalCall& call)
      : kernel_(bind_kernel(call)), workspace_(kernel_.workspace) {
    use_one_thread_for_kernels();
    for (const TensorType& type : call.inputs) inputs_.emplace_back(type);
    for (const TensorType& type : call.outputs) outputs_.emplace_back(type);
    for (Tensor& tensor : inputs_) fill(tensor);
    for (Tensor& tensor : inputs_) input_data_.push_back(tensor.data());
    for (Tensor& tensor : outputs_) output_data_.push_back(tensor.data());
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void run() { kernel_.run({input_data_, output_data_, workspace_.data()}); }
  const float* input(size_t i) const { return reinterpret_cast<const float*>(input_data_[i]); }

 private:
  static void fill(Tensor& tensor) {
    if (tensor.dtype() != DType::kF32) return;
    float value = -2.0f;
    for (float& x : tensor.values<float>()) x = value = value > 2.0f ? -2.0f : value + 0.0137f;
  }

  BoundKernel kernel_;
  AlignedBuffer workspace_;
  std::vector<Tensor> inputs_, outputs_;
  std::vector<const std::byte*> input_data_;
  std::vector<std::byte*> output_data_;
};

// Copies `bytes`, reading half and writing half, between two buffers of its own.
class Copy {
 public:
  explicit Copy(int64_t bytes) : from_(Bytes(bytes / 2)), to_(Bytes(bytes / 2)) {
    std::memset(from_.data(), 1, size());
  }
  void run() {
    std::memcpy(to_.data(), from_.data(), size());
    benchmark::DoNotOptimize(to_.data());
    benchmark::ClobberMemory();
  }

 private:
  size_t size() const { return static_cast<size_t>(to_.size().value()); }
  AlignedBuffer from_, to_;
};

int64_t bytes_of(const LocalCall& call) {
  int64_t bytes = 0;
  for (const TensorType& type : call.inputs) bytes += byte_size(type).value();
  for (const TensorType& type : call.outputs) bytes += byte_size(type).value();
  return bytes;
}

void beside_copy(benchmark::State& state, const LocalCall& call) {
  Bench bench(call);
  Copy copy(bytes_of(call));
  compare(state, [&] { bench.run(); }, [&] { copy.run(); });
}

// One product of the library with the same arithmetic, on packed row-major matrices.
struct Product {
  int64_t batches, rows, columns, inner;
};

void beside_gemm(benchmark::State& state, const LocalCall& call, const Product& product,
                 int products) {
  Bench bench(call);
  const int64_t batches = product.batches, rows = product.rows, columns = product.columns,
                inner = product.inner;
  Tensor a({DType::kF32, {batches, rows, inner}}), b({DType::kF32, {batches, inner, columns}}),
      c({DType::kF32, {rows, columns}});
  for (float& x : a.values<float>()) x = 0.5f;
  for (float& x : b.values<float>()) x = 0.25f;
  const auto peer = [&] {
    for (int64_t i = 0; i < batches * products; ++i)
      dnnl_sgemm('N', 'N', rows, columns, inner, 1.0f,
                 a.values<float>().data() + i % batches * rows * inner, inner,
                 b.values<float>().data() + i % batches * inner * columns, columns, 0.0f,
                 c.values<float>().data(), columns);
  };
  compare(state, [&] { bench.run(); }, peer);
  state.counters["GFlop/s"] = 2e-3 *
                              static_cast<double>(batches * rows * columns * inner * products) /
                              state.counters["best_us"];
}

TensorType f32(const Shape& shape) {
  return {DType::kF32, shape};
}

void add_products() {
  const auto add = [](const char* name, const char* einsum, const Shape& a, const Shape& b,
                      const Shape& out, const Product& product) {
    const LocalCall call{"dot_general", {}, {}, einsum, {f32(a), f32(b)}, {f32(out)}};
    benchmark::RegisterBenchmark(name, [=](benchmark::State& state) {
      beside_gemm(state, call, product, 1);
    })->UseManualTime();
  };
  add("dot mk,kn->mn 512", "mk,kn->mn", {512, 512}, {512, 512}, {512, 512}, {1, 512, 512, 512});
  add("dot bse,ef->bsf mlp", "bse,ef->bsf", {4, 128, 768}, {768, 3072}, {4, 128, 3072},
      {1, 512, 3072, 768});
  add("dot bse,bsf->ef weight gradient", "bse,bsf->ef", {4, 128, 768}, {4, 128, 3072}, {768, 3072},
      {1, 768, 3072, 512});
  add("dot bsf,ef->bse input gradient", "bsf,ef->bse", {4, 128, 3072}, {768, 3072}, {4, 128, 768},
      {1, 512, 768, 3072});
  add("dot bshd,hde->bse", "bshd,hde->bse", {4, 128, 12, 64}, {12, 64, 768}, {4, 128, 768},
      {1, 512, 768, 768});
  add("dot bhsd,hde->bse packs a", "bhsd,hde->bse", {4, 12, 128, 64}, {12, 64, 768}, {4, 128, 768},
      {1, 512, 768, 768});
  add("dot bshd,bthd->bhst scores", "bshd,bthd->bhst", {2, 256, 12, 64}, {2, 256, 12, 64},
      {2, 12, 256, 256}, {24, 256, 256, 64});
  add("dot mk,kn->mn 16", "mk,kn->mn", {16, 16}, {16, 16}, {16, 16}, {1, 16, 16, 16});
}

// Each kernel at a size within the caches and at one beyond them.
void add_elementwise() {
  for (int64_t count : {int64_t{1} << 15, int64_t{1} << 23}) {
    const TensorType type = f32({count});
    const auto add = [&](const std::string& kernel, size_t inputs,
                         const std::vector<double>& reals) {
      const LocalCall call{kernel, {}, reals, "", std::vector<TensorType>(inputs, type), {type}};
      benchmark::RegisterBenchmark((kernel + " " + std::to_string(count)).c_str(),
                                   [call](benchmark::State& state) { beside_copy(state, call); })
          ->UseManualTime();
    };
    for (const char* op : {"neg", "exp", "log", "tanh", "logistic", "erf", "rsqrt"})
      add(std::string("unary.") + op, 1, {});
    for (const char* op : {"add", "mul", "div", "max"}) add(std::string("binary.") + op, 2, {});
    add("scalar.mul", 1, {0.5});
  }
}

void add_memory_bound() {
  const auto add = [](const std::string& name, const LocalCall& call) {
    benchmark::RegisterBenchmark(name.c_str(), [call](benchmark::State& state) {
      beside_copy(state, call);
    })->UseManualTime();
  };
  add("reduce.sum rows of 4096x768",
      {"reduce.sum", {1}, {}, "", {f32({4096, 768})}, {f32({4096})}});
  add("reduce.sum rows of 65536x16",
      {"reduce.sum", {1}, {}, "", {f32({65536, 16})}, {f32({65536})}});
  add("reduce.max rows of 4096x768",
      {"reduce.max", {1}, {}, "", {f32({4096, 768})}, {f32({4096})}});
  add("reduce.sum columns of 4096x768",
      {"reduce.sum", {0}, {}, "", {f32({4096, 768})}, {f32({768})}});
  add("reduce.sum columns of 65536x10",
      {"reduce.sum", {0}, {}, "", {f32({65536, 10})}, {f32({10})}});
  add("reduce.sum pieces of 64x64x768",
      {"reduce.sum", {0, 2}, {}, "", {f32({64, 64, 768})}, {f32({64})}});
  add("transpose 2048x1536",
      {"transpose", {1, 0}, {}, "", {f32({2048, 1536})}, {f32({1536, 2048})}});
  add("transpose 0213 8x256x12x64",
      {"transpose", {0, 2, 1, 3}, {}, "", {f32({8, 256, 12, 64})}, {f32({8, 12, 256, 64})}});
  add("broadcast rows 4096x768", {"broadcast", {1}, {}, "", {f32({768})}, {f32({4096, 768})}});
  add("broadcast columns 4096x768", {"broadcast", {0}, {}, "", {f32({4096})}, {f32({4096, 768})}});
  add("concat two 2048x768",
      {"concat", {1}, {}, "", {f32({2048, 768}), f32({2048, 768})}, {f32({2048, 1536})}});
  add("gather 4096 rows of 768",
      {"gather", {0}, {}, "", {f32({1000, 768}), {DType::kI32, {4096}}}, {f32({4096, 768})}});
  add("select 1048576", {"select",
                         {},
                         {},
                         "",
                         {{DType::kBool, {1 << 20}}, f32({1 << 20}), f32({1 << 20})},
                         {f32({1 << 20})}});
  add("compare.lt 1048576",
      {"compare.lt", {}, {}, "", {f32({1 << 20}), f32({1 << 20})}, {{DType::kBool, {1 << 20}}}});
  add("random_uniform 1048576",
      {"random_uniform", {7, 0, 1 << 20}, {}, "", {{DType::kI32, {}}}, {f32({1 << 20})}});
}

// The peer executes the two (for the gradient, five) products of attention on packed matrices,
// without mask and softmax.
void add_attention() {
  const TensorType qkv = f32({2, 512, 12, 64}), lse = f32({2, 12, 512});
  for (int64_t causal : {0, 1}) {
    const std::string suffix = causal ? " causal 2x512x12x64" : " 2x512x12x64";
    const LocalCall forward{"attention", {causal, 0}, {0.125}, "", {qkv, qkv, qkv}, {qkv, lse}};
    benchmark::RegisterBenchmark(("attention" + suffix).c_str(), [forward](
                                                                     benchmark::State& state) {
      beside_gemm(state, forward, {24, 512, 512, 64}, 2);
    })->UseManualTime();
    const LocalCall gradient{
        "attention_grad", {causal, 0}, {0.125}, "", {qkv, qkv, qkv, qkv, lse, qkv},
        {qkv, qkv, qkv}};
    benchmark::RegisterBenchmark(("attention_grad" + suffix).c_str(), [gradient](
                                                                          benchmark::State& state) {
      beside_gemm(state, gradient, {24, 512, 512, 64}, 5);
    })->UseManualTime();
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  tessera::add_products();
  tessera::add_elementwise();
  tessera::add_memory_bound();
  tessera::add_attention();
  benchmark::RunSpecifiedBenchmarks();
}
