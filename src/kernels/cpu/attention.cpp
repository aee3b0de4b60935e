// attention and its gradient: each block of queries is multiplied with all the keys that it sees,
// by matrix products.
//
// q [B,S,H,D] and k, v [B,T,H,D] are matrices of [S,D] and [T,D] for each batch and head, with rows
// H*D apart, so nothing is packed.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/binders.h"
#include "kernels/cpu/common/gemm.h"
#include "kernels/cpu/common/operands.h"
#include "kernels/cpu/common/simd_loops.h"
#include "kernels/cpu/common/simd_reduce.h"

namespace tessera {
namespace {

// With 1024 keys the scores of a block take 256 KiB, which fits the second-level cache.
constexpr int64_t kQueryBlock = 64;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct AttentionPlan {
  int64_t batch = 0, queries = 0, keys = 0, heads = 0, depth = 0;
  bool causal = false;
  int64_t first_position = 0;
  float scale = 1.0f;
  ScalarLoop exp_minus = nullptr;
  ScalarLoop multiply = nullptr;
  BinaryLoop product = nullptr;
  ReduceLoops<float> sum{}, max{};

  int64_t row_stride() const { return heads * depth; }
  // Query i sees keys [0, visible(i)).
  int64_t visible(int64_t query) const {
    return causal ? std::clamp<int64_t>(first_position + query + 1, 0, keys) : keys;
  }
  // The begin of a head in q, out and their gradients, and in k, v and theirs.
  int64_t query_head(int64_t b, int64_t h) const { return (b * queries * heads + h) * depth; }
  int64_t key_head(int64_t b, int64_t h) const { return (b * keys * heads + h) * depth; }
  int64_t score_bytes() const {
    return align_up(std::min(kQueryBlock, queries) * keys * size_of(DType::kF32));
  }
};

// Queries [begin, begin + rows) of one head, and the keys that the last of them sees.
struct Block {
  int64_t begin = 0, rows = 0, keys = 0;
};

Block block_at(const AttentionPlan& plan, int64_t begin) {
  const int64_t rows = std::min(kQueryBlock, plan.queries - begin);
  return {begin, rows, plan.visible(begin + rows - 1)};
}

void check_attention(const LocalCall& call) {
  const TensorType &q = call.inputs[0], &k = call.inputs[1];
  require(call, q.shape.size() == 4 && k.shape.size() == 4,
          "q is [B,S,H,D], k and v are [B,T,H,D]");
  require(call, call.inputs[2] == k, "k and v have one type");
  require(call, q.dtype == DType::kF32 && k.dtype == DType::kF32, "takes f32");
  require(call, k.shape == Shape({q.shape[0], k.shape[1], q.shape[2], q.shape[3]}),
          "q and k agree in batch, heads and depth");
}

TensorType lse_type(const LocalCall& call) {
  const Shape& q = call.inputs[0].shape;
  return {DType::kF32, {q[0], q[2], q[1]}};
}

AttentionPlan plan_attention(const LocalCall& call) {
  const Shape &q = call.inputs[0].shape, &k = call.inputs[1].shape;
  return {.batch = q[0],
          .queries = q[1],
          .keys = k[1],
          .heads = q[2],
          .depth = q[3],
          .causal = call.ints[0] != 0,
          .first_position = call.ints[1],
          .scale = static_cast<float>(call.reals[0]),
          .exp_minus = find_scalar_loop("exp_minus"),
          .multiply = find_scalar_loop("mul"),
          .product = find_binary_loop("mul"),
          .sum = find_reduce_loops<float>("sum"),
          .max = find_reduce_loops<float>("max")};
}

// Turns a row of scores into exp(score - max), hides the keys that the query must not see, writes
// the log-sum-exp, and returns the sum.
float soften_row(const AttentionPlan& plan, float* scores, int64_t visible, int64_t keys,
                 float& lse) {
  std::fill(scores + visible, scores + keys, 0.0f);
  if (visible == 0) {
    lse = -kInfinity;
    return 0.0f;
  }
  const float largest = reduce_run(plan.max, scores, visible);
  plan.exp_minus(scores, largest, scores, visible);
  const float sum = reduce_run(plan.sum, scores, visible);
  lse = largest + std::log(sum);
  return sum;
}

void attend_block(const AttentionPlan& plan, const Block& block, const float* q, const float* k,
                  const float* v, float* scores, float* out, float* lse) {
  const int64_t stride = plan.row_stride();
  float sums[kQueryBlock];
  gemm({block.rows, block.keys, plan.depth}, plan.scale, {q + block.begin * stride, stride, false},
       {k, stride, true}, false, scores, block.keys);
  for (int64_t row = 0; row < block.rows; ++row)
    sums[row] = soften_row(plan, scores + row * block.keys, plan.visible(block.begin + row),
                           block.keys, lse[block.begin + row]);
  float* const out_rows = out + block.begin * stride;
  gemm({block.rows, plan.depth, block.keys}, 1.0f, {scores, block.keys, false}, {v, stride, false},
       false, out_rows, stride);
  // Dividing here rather than in the scores divides depth numbers instead of keys numbers.
  for (int64_t row = 0; row < block.rows; ++row) {
    if (plan.visible(block.begin + row) == 0) continue;
    plan.multiply(out_rows + row * stride, 1.0f / sums[row], out_rows + row * stride, plan.depth);
  }
}

void run_attention(const AttentionPlan& plan, const KernelBuffers& buffers) {
  float* const scores = reinterpret_cast<float*>(buffers.workspace);
  for (int64_t b = 0; b < plan.batch; ++b)
    for (int64_t h = 0; h < plan.heads; ++h)
      for (int64_t begin = 0; begin < plan.queries; begin += kQueryBlock)
        attend_block(plan, block_at(plan, begin), input<float>(buffers, 0) + plan.query_head(b, h),
                     input<float>(buffers, 1) + plan.key_head(b, h),
                     input<float>(buffers, 2) + plan.key_head(b, h), scores,
                     output<float>(buffers, 0) + plan.query_head(b, h),
                     output<float>(buffers, 1) + (b * plan.heads + h) * plan.queries);
}

// The operands of one head.
struct Head {
  const float *q, *k, *v, *out, *lse, *dout;
  float *dq, *dk, *dv;
};

Head head_at(const AttentionPlan& plan, const KernelBuffers& buffers, int64_t b, int64_t h) {
  const int64_t query = plan.query_head(b, h), key = plan.key_head(b, h);
  return {input<float>(buffers, 0) + query,
          input<float>(buffers, 1) + key,
          input<float>(buffers, 2) + key,
          input<float>(buffers, 3) + query,
          input<float>(buffers, 4) + (b * plan.heads + h) * plan.queries,
          input<float>(buffers, 5) + query,
          output<float>(buffers, 0) + query,
          output<float>(buffers, 1) + key,
          output<float>(buffers, 2) + key};
}

// The sum over depth of dout * out for one query, which the gradient of the softmax subtracts for
// every key.
float shared_gradient(const AttentionPlan& plan, const float* dout, const float* out) {
  float products[kReduceBlock];
  PairwiseTree<float> tree(plan.sum);
  for (int64_t begin = 0; begin < plan.depth; begin += kReduceBlock) {
    const int64_t count = std::min(kReduceBlock, plan.depth - begin);
    plan.product(dout + begin, out + begin, products, count);
    tree.add(plan.sum.block(products, count));
  }
  return tree.result();
}

// probabilities: the scores become the softmax. score_gradients: d/d probability becomes d/d (q
// k^T).
void soften_gradient_row(const AttentionPlan& plan, const Head& head, int64_t query, int64_t keys,
                         float* probabilities, float* score_gradients) {
  const float lse = head.lse[query];
  const int64_t visible = lse == -kInfinity ? 0 : plan.visible(query);
  plan.exp_minus(probabilities, lse, probabilities, visible);
  std::fill(probabilities + visible, probabilities + keys, 0.0f);
  const float shared = shared_gradient(plan, head.dout + query * plan.row_stride(),
                                       head.out + query * plan.row_stride());
  for (int64_t key = 0; key < visible; ++key)
    score_gradients[key] = plan.scale * probabilities[key] * (score_gradients[key] - shared);
  std::fill(score_gradients + visible, score_gradients + keys, 0.0f);
}

void attend_gradient_block(const AttentionPlan& plan, const Head& head, const Block& block,
                           float* probabilities, float* score_gradients) {
  const int64_t stride = plan.row_stride();
  const MatrixView q{head.q + block.begin * stride, stride, false},
      dout{head.dout + block.begin * stride, stride, false};
  gemm({block.rows, block.keys, plan.depth}, plan.scale, q, {head.k, stride, true}, false,
       probabilities, block.keys);
  gemm({block.rows, block.keys, plan.depth}, 1.0f, dout, {head.v, stride, true}, false,
       score_gradients, block.keys);
  for (int64_t row = 0; row < block.rows; ++row)
    soften_gradient_row(plan, head, block.begin + row, block.keys, probabilities + row * block.keys,
                        score_gradients + row * block.keys);
  gemm({block.rows, plan.depth, block.keys}, 1.0f, {score_gradients, block.keys, false},
       {head.k, stride, false}, false, head.dq + block.begin * stride, stride);
  gemm({block.keys, plan.depth, block.rows}, 1.0f, {score_gradients, block.keys, true}, q, true,
       head.dk, stride);
  gemm({block.keys, plan.depth, block.rows}, 1.0f, {probabilities, block.keys, true}, dout, true,
       head.dv, stride);
}

void run_attention_grad(const AttentionPlan& plan, const KernelBuffers& buffers) {
  float* const probabilities = reinterpret_cast<float*>(buffers.workspace);
  float* const score_gradients = reinterpret_cast<float*>(buffers.workspace + plan.score_bytes());
  const int64_t key_elements = plan.batch * plan.keys * plan.row_stride();
  std::fill_n(output<float>(buffers, 1), key_elements, 0.0f);
  std::fill_n(output<float>(buffers, 2), key_elements, 0.0f);
  for (int64_t b = 0; b < plan.batch; ++b)
    for (int64_t h = 0; h < plan.heads; ++h)
      for (int64_t begin = 0; begin < plan.queries; begin += kQueryBlock)
        attend_gradient_block(plan, head_at(plan, buffers, b, h), block_at(plan, begin),
                              probabilities, score_gradients);
}

/// The pairs of a query and a key that it sees, per batch and head. The positions of queries are
/// continuous here, so that parts add up to the whole, and a square of n x n has n^2 / 2.
double visible_pairs(const AttentionPlan& plan) {
  const auto queries = static_cast<double>(plan.queries), keys = static_cast<double>(plan.keys);
  if (!plan.causal) return queries * keys;
  const auto seen_before = [keys](double position) {
    const double inside = std::clamp(position, 0.0, keys);
    return inside * inside / 2 + std::max(position - keys, 0.0) * keys;
  };
  const auto first = static_cast<double>(plan.first_position);
  return seen_before(first + queries) - seen_before(first);
}

/// The rates by which a call is priced: rows of keys that do not fill vectors take longer, and
/// those of causal attention have different lengths.
struct RateNames {
  std::string_view causal, ragged;
};

/// The work of n products over the visible pairs. Each row of a query is a piece, since its
/// softmax takes time beside the products.
LocalWork work_of_products(const LocalCall& call, double products, const RateNames& names) {
  const AttentionPlan plan = plan_attention(call);
  const double heads = static_cast<double>(plan.batch) * static_cast<double>(plan.heads);
  LocalWork work = work_over_operands(
      call, OperationClass::kAttention,
      2 * products * visible_pairs(plan) * heads * static_cast<double>(plan.depth));
  work.pieces = heads * static_cast<double>(plan.queries);
  constexpr int64_t kVector = 16;
  if (plan.causal)
    work.kernel = names.causal;
  else if (plan.keys % kVector != 0)
    work.kernel = names.ragged;
  return work;
}

}  // namespace

BoundKernel bind_attention(const LocalCall& call) {
  require_operands(call, 3, 2, 2, 1);
  check_attention(call);
  require(call, call.outputs[0] == call.inputs[0] && call.outputs[1] == lse_type(call),
          "gives q's type and lse f32[B,H,S]");
  const AttentionPlan plan = plan_attention(call);
  return {[plan](const KernelBuffers& buffers) { run_attention(plan, buffers); },
          workspace_of_attention(call)};
}

BoundKernel bind_attention_grad(const LocalCall& call) {
  require_operands(call, 6, 3, 2, 1);
  check_attention(call);
  const TensorType &q = call.inputs[0], &k = call.inputs[1];
  require(call, call.inputs[3] == q && call.inputs[4] == lse_type(call) && call.inputs[5] == q,
          "takes out, lse and dout of attention");
  require(call, call.outputs[0] == q && call.outputs[1] == k && call.outputs[2] == k,
          "gives the types of q, k and v");
  const AttentionPlan plan = plan_attention(call);
  return {[plan](const KernelBuffers& buffers) { run_attention_grad(plan, buffers); },
          workspace_of_attention_grad(call)};
}

/// Two products, of scores and of values.
LocalWork work_of_attention(const LocalCall& call) {
  return work_of_products(call, 2, {"attention.causal", "attention.ragged"});
}

/// Five products instead of two: the scores again, the gradient of the probabilities, and the
/// gradients of q, k and v.
LocalWork work_of_attention_grad(const LocalCall& call) {
  return work_of_products(call, 5, {"attention_grad.causal", "attention_grad.ragged"});
}

Bytes workspace_of_attention(const LocalCall& call) {
  return Bytes(plan_attention(call).score_bytes());
}

Bytes workspace_of_attention_grad(const LocalCall& call) {
  return Bytes(2 * plan_attention(call).score_bytes());
}

}  // namespace tessera
