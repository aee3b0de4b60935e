#include "ir/ops/testing/operator_cases.h"

#include <initializer_list>
#include <optional>

#include "base/testing/tensor_types.h"

namespace tessera::operator_testing {
namespace {

using Cases = std::vector<OperatorCase>;
using OperatorCasesIntegers = std::vector<int64_t>;

TensorType boolean(Shape shape) {
  return {DType::kBool, shape};
}

const Shape kShape{5, 7};
constexpr Fill kPositive{0.25, 4};

/// Operators of which each result element is one operand element, or is made of operand elements at
/// its own position.
OperatorCase exact_case(std::string kind, std::vector<TensorType> inputs,
                        Attributes attributes = {}, std::vector<Fill> fills = {}) {
  return {.kind = std::move(kind),
          .inputs = std::move(inputs),
          .attributes = std::move(attributes),
          .fills = std::move(fills),
          .bitwise = true};
}

Cases unary_cases() {
  Cases cases;
  for (const char* kind : {"neg", "abs", "exp", "tanh", "logistic", "erf", "sin", "cos", "floor",
                           "ceil", "round", "expm1", "square", "sign", "stop_gradient"})
    cases.push_back(exact_case(kind, {f32(kShape)}, {}, {{-3, 3}}));
  for (const char* kind : {"neg", "abs", "square", "sign"})
    cases.push_back(exact_case(kind, {i32(kShape)}, {}, {{-9, 9}}));
  for (const char* kind : {"log", "log1p", "sqrt", "rsqrt"})
    cases.push_back(exact_case(kind, {f32(kShape)}, {}, {kPositive}));
  for (const char* kind : {"add_scalar", "mul_scalar", "max_scalar", "min_scalar"})
    cases.push_back(exact_case(kind, {f32(kShape)}, {{"value", 0.375}}));
  cases.push_back(exact_case("pow_scalar", {f32(kShape)}, {{"value", -1.5}}, {kPositive}));
  cases.push_back(exact_case("exp", {f32({})}));
  return cases;
}

Cases binary_cases() {
  Cases cases;
  for (const char* kind : {"add", "sub", "mul", "max", "min"}) {
    cases.push_back(exact_case(kind, {f32(kShape), f32(kShape)}));
    cases.push_back(exact_case(kind, {i32(kShape), i32(kShape)}, {}, {{-9, 9}, {-9, 9}}));
  }
  cases.push_back(exact_case("div", {f32(kShape), f32(kShape)}, {}, {{-1, 1}, kPositive}));
  cases.push_back(exact_case("pow", {f32(kShape), f32(kShape)}, {}, {kPositive, {-2, 2}}));
  for (const char* kind : {"floordiv", "mod"}) {
    cases.push_back(exact_case(kind, {i32(kShape), i32(kShape)}, {}, {{-20, 20}, {1, 6}}));
    cases.push_back(exact_case(kind, {i32(kShape), i32(kShape)}, {}, {{-20, 20}, {-6, -1}}));
  }
  for (const char* kind : {"and", "or", "xor"}) {
    cases.push_back(exact_case(kind, {boolean(kShape), boolean(kShape)}));
    cases.push_back(exact_case(kind, {i32(kShape), i32(kShape)}, {}, {{-999, 999}, {-999, 999}}));
  }
  for (const char* kind : {"shift_left", "shift_right"})
    cases.push_back(exact_case(kind, {i32(kShape), i32(kShape)}, {}, {{-99999, 99999}, {-2, 9}}));
  return cases;
}

Cases choice_cases() {
  Cases cases;
  for (const char* relation : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    cases.push_back(exact_case("compare", {f32(kShape), f32(kShape)}, {{"relation", relation}}));
    cases.push_back(exact_case("compare", {i32(kShape), i32(kShape)}, {{"relation", relation}}));
  }
  cases.push_back(exact_case("not", {boolean(kShape)}));
  cases.push_back(exact_case("not", {i32(kShape)}, {}, {{-9, 9}}));
  for (DType dtype : {DType::kF32, DType::kI32, DType::kBool})
    cases.push_back(exact_case("select", {boolean(kShape), {dtype, kShape}, {dtype, kShape}}));
  for (DType from : {DType::kF32, DType::kI32, DType::kBool})
    for (const char* to : {"f32", "i32", "bool"})
      cases.push_back(exact_case("cast", {{from, kShape}}, {{"dtype", to}}, {{-2, 2}}));
  return cases;
}

Cases source_cases() {
  const OperatorCasesIntegers shape{5, 7};
  Cases cases;
  for (const char* dtype : {"f32", "i32", "bool"})
    cases.push_back(
        exact_case("constant", {}, {{"dtype", dtype}, {"shape", shape}, {"value", 1.0}}));
  for (const char* dtype : {"f32", "i32"})
    for (int64_t dim : {0, 1})
      cases.push_back(exact_case("iota", {}, {{"dtype", dtype}, {"shape", shape}, {"dim", dim}}));
  cases.push_back(exact_case("random_uniform", {i32({})},
                             {{"shape", shape}, {"key", int64_t{12345}}}, {{0, 9}}));
  return cases;
}

Cases dot_cases() {
  const auto dot = [](const char* spec, Shape a, Shape b) {
    return OperatorCase{
        .kind = "dot_general", .inputs = {f32(a), f32(b)}, .attributes = {{"spec", spec}}};
  };
  return {dot("mk,kn->mn", {5, 7}, {7, 3}),
          dot("mk,nk->nm", {5, 7}, {3, 7}),
          dot("km,kn->mn", {7, 5}, {7, 3}),
          dot("k,k->", {7}, {7}),
          dot("m,n->mn", {5}, {3}),
          dot("mk,k->m", {5, 7}, {7}),
          dot("bse,ehd->bshd", {2, 3, 5}, {5, 2, 3}),
          dot("bshd,bthd->bhst", {2, 3, 2, 5}, {2, 4, 2, 5}),
          dot("eij,jek->eik", {3, 2, 5}, {5, 3, 4}),
          dot("ij,ij->ij", {3, 5}, {3, 5})};
}

Cases broadcast_cases() {
  const auto broadcast = [](TensorType x, OperatorCasesIntegers shape, OperatorCasesIntegers dims) {
    return exact_case("broadcast", {x}, {{"shape", shape}, {"dims", dims}});
  };
  return {broadcast(f32({5}), {3, 5}, {1}),       broadcast(f32({5}), {5, 3}, {0}),
          broadcast(f32({}), {2, 3}, {}),         broadcast(f32({5, 1}), {2, 5, 3}, {1, 2}),
          broadcast(f32({1, 3}), {5, 3}, {0, 1}), broadcast(f32({1}), {1, 4}, {0}),
          broadcast(f32({2, 3}), {2, 3}, {0, 1}), broadcast(i32({3}), {2, 3}, {1}),
          broadcast(boolean({3}), {3, 2}, {0})};
}

Cases reshape_cases() {
  const auto reshape = [](TensorType x, OperatorCasesIntegers shape) {
    return exact_case("reshape", {x}, {{"shape", shape}});
  };
  return {reshape(f32({5, 3}), {15}),         reshape(f32({15}), {5, 3}),
          reshape(f32({6, 4}), {4, 6}),       reshape(f32({2, 1, 3}), {2, 3}),
          reshape(f32({5}), {1, 5, 1}),       reshape(f32({2, 3, 4}), {6, 4}),
          reshape(f32({6, 4}), {3, 2, 2, 2}), reshape(f32({1, 1}), {}),
          reshape(f32({4, 9}), {2, 18}),      reshape(i32({4, 3}), {2, 6}),
          reshape(boolean({3, 2}), {2, 3}),   reshape(f32({3, 1, 4}), {3, 2, 1, 2})};
}

Cases window_cases() {
  const auto slice = [](TensorType x, OperatorCasesIntegers start, OperatorCasesIntegers limit,
                        OperatorCasesIntegers stride) {
    return exact_case("slice", {x}, {{"start", start}, {"limit", limit}, {"stride", stride}});
  };
  const auto pad = [](TensorType x, OperatorCasesIntegers low, OperatorCasesIntegers shape,
                      double value) {
    return exact_case("pad", {x}, {{"low", low}, {"shape", shape}, {"value", value}});
  };
  const auto concat = [](std::vector<TensorType> parts, int64_t dim) {
    return exact_case("concat", std::move(parts), {{"dim", dim}});
  };
  return {slice(f32({5, 7}), {0, 2}, {5, 6}, {1, 1}),
          slice(f32({5, 7}), {1, 1}, {4, 7}, {2, 3}),
          slice(i32({5, 3}), {0, 0}, {5, 3}, {1, 1}),
          slice(boolean({5}), {3}, {3}, {1}),
          pad(f32({5, 3}), {0, 2}, {5, 7}, 0),
          pad(f32({5, 3}), {1, 0}, {8, 3}, -2.5),
          pad(f32({5, 3}), {-2, -1}, {4, 7}, 0),
          pad(i32({4}), {1}, {6}, 7),
          concat({f32({5, 2}), f32({5, 3})}, 1),
          concat({f32({2, 3}), f32({1, 3}), f32({4, 3})}, 0),
          concat({i32({3, 2}), i32({3, 1})}, 1),
          concat({boolean({3}), boolean({2})}, 0)};
}

Cases transpose_cases() {
  const auto transpose = [](TensorType x, OperatorCasesIntegers permutation) {
    return exact_case("transpose", {x}, {{"permutation", permutation}});
  };
  return {transpose(f32({5, 7}), {1, 0}), transpose(f32({2, 5, 3}), {2, 0, 1}),
          transpose(f32({2, 3, 2, 5}), {0, 2, 1, 3}), transpose(i32({3, 5}), {1, 0}),
          transpose(boolean({3, 5}), {1, 0})};
}

Cases reduce_cases() {
  const auto reduce = [](const char* op, TensorType x, OperatorCasesIntegers dims, Fill fill) {
    return OperatorCase{.kind = "reduce",
                        .inputs = {x},
                        .attributes = {{"op", op}, {"dims", dims}},
                        .fills = {fill}};
  };
  Cases cases;
  for (const char* op : {"sum", "max", "min", "prod"}) {
    const Fill fill = std::string(op) == "prod" ? Fill{0.5, 1.5} : Fill{};
    for (const OperatorCasesIntegers& dims :
         {OperatorCasesIntegers{1}, OperatorCasesIntegers{0}, OperatorCasesIntegers{0, 2},
          OperatorCasesIntegers{0, 1, 2}, OperatorCasesIntegers{}})
      cases.push_back(reduce(op, f32({3, 5, 4}), dims, fill));
    cases.push_back(reduce(op, i32({3, 5}), {1}, {-4, 4}));
  }
  for (const char* op : {"any", "all"}) cases.push_back(reduce(op, boolean({7, 2}), {1}, {}));
  return cases;
}

/// Ids from one before the first row to one after the last.
Cases gather_cases() {
  const Fill ids{-1, 6};
  const auto scatter_add = [&](Shape id_shape, Shape updates) {
    return OperatorCase{.kind = "scatter_add",
                        .inputs = {i32(id_shape), f32(updates)},
                        .attributes = {{"rows", int64_t{6}}},
                        .fills = {ids}};
  };
  return {exact_case("gather", {f32({6, 3}), i32({5})}, {}, {{-1, 1}, ids}),
          exact_case("gather", {f32({6}), i32({2, 5})}, {}, {{-1, 1}, ids}),
          exact_case("gather", {f32({6, 2, 3}), i32({})}, {}, {{-1, 1}, {2, 2}}),
          exact_case("gather", {i32({6, 2}), i32({3, 5})}, {}, {{-9, 9}, ids}),
          scatter_add({5}, {5, 3}),
          scatter_add({2, 5}, {2, 5}),
          scatter_add({3, 5}, {3, 5, 2})};
}

Cases gather_along_cases() {
  const Fill ids{-1, 7};
  const auto take = [&](TensorType x, Shape id_shape, int64_t dim) {
    return exact_case("take_along_dim", {x, i32(id_shape)}, {{"dim", dim}}, {{-9, 9}, ids});
  };
  const auto scatter_add = [&](Shape shape, int64_t dim, int64_t extent) {
    return OperatorCase{.kind = "scatter_add_along_dim",
                        .inputs = {i32(shape), f32(shape)},
                        .attributes = {{"dim", dim}, {"extent", extent}},
                        .fills = {ids}};
  };
  return {take(f32({5, 7}), {5, 3}, 1),
          take(f32({7, 5}), {2, 5}, 0),
          take(f32({2, 7, 3}), {2, 4, 3}, 1),
          take(i32({7}), {5}, 0),
          take(boolean({5, 7}), {5, 3}, 1),
          scatter_add({5, 3}, 1, 7),
          scatter_add({3, 5}, 0, 6),
          scatter_add({2, 4, 3}, 1, 5),
          scatter_add({5}, 0, 3)};
}

Cases gather_nd_cases() {
  const Fill ids{-1, 4};
  const auto gather = [&](TensorType table, Shape id_shape) {
    return exact_case("gather_nd", {table, i32(id_shape)}, {}, {{-9, 9}, ids});
  };
  const auto scatter = [&](TensorType table, Shape id_shape, Shape updates) {
    return exact_case("scatter_nd", {table, i32(id_shape), {table.dtype, updates}}, {},
                      {{-9, 9}, ids, {-9, 9}});
  };
  const auto scatter_add = [&](Shape id_shape, Shape updates, OperatorCasesIntegers rows) {
    return OperatorCase{.kind = "scatter_add_nd",
                        .inputs = {i32(id_shape), f32(updates)},
                        .attributes = {{"rows", rows}},
                        .fills = {ids}};
  };
  return {
      gather(f32({4, 5, 3}), {7, 2}),
      gather(f32({4, 3}), {2, 3, 1}),
      gather(f32({4, 3}), {5, 2}),
      gather(i32({4, 3, 2}), {5, 3}),
      gather(boolean({4, 3}), {5, 1}),
      scatter(f32({4, 3, 2}), {3, 2}, {3, 2}),
      scatter(f32({4, 3}), {2, 3, 1}, {2, 3, 3}),  // more updates than rows: some are written over
      scatter(f32({5, 5}), {6, 2}, {6}),
      scatter(i32({4, 3}), {5, 1}, {5, 3}),
      scatter(boolean({4, 3}), {3, 2}, {3}),
      scatter_add({7, 2}, {7, 3}, {4, 5}),
      scatter_add({2, 3, 1}, {2, 3, 2}, {4}),
      scatter_add({9, 2}, {9}, {3, 3})};
}

Cases order_cases() {
  Cases cases;
  for (const auto& [shape, dim] : std::vector<std::pair<Shape, int64_t>>{
           {{5, 7}, 1}, {{5, 7}, 0}, {{2, 5, 3}, 1}, {{7}, 0}, {{3, 2}, 1}}) {
    for (const TensorType& x : {f32(shape), i32(shape)}) {
      const Fill fill = x.dtype == DType::kI32 ? Fill{-2, 2} : Fill{};  // few numbers: many ties
      for (const char* kind : {"argmax", "argmin"})
        cases.push_back(exact_case(kind, {x}, {{"dim", dim}}, {fill}));
      for (bool descending : {false, true})
        cases.push_back(
            exact_case("sort", {x}, {{"dim", dim}, {"descending", descending}}, {fill}));
      for (int64_t k : {int64_t{1}, shape[static_cast<int>(dim)] / 2 + 1})
        cases.push_back(exact_case("top_k", {x}, {{"dim", dim}, {"k", k}}, {fill}));
    }
  }
  return cases;
}

Cases scan_cases() {
  Cases cases;
  for (const auto& [shape, dim] :
       std::vector<std::pair<Shape, int64_t>>{{{5, 7}, 1}, {{5, 7}, 0}, {{2, 5, 3}, 1}, {{7}, 0}}) {
    for (const TensorType& x : {f32(shape), i32(shape)}) {
      const Fill fill = x.dtype == DType::kI32 ? Fill{-9, 9} : Fill{};
      for (bool exclusive : {false, true})
        for (bool reverse : {false, true})
          cases.push_back(
              {.kind = "cumsum",
               .inputs = {x},
               .attributes = {{"dim", dim}, {"exclusive", exclusive}, {"reverse", reverse}},
               .fills = {fill}});
      cases.push_back(exact_case("reverse", {x}, {{"dim", dim}}, {fill}));
    }
    cases.push_back(exact_case("reverse", {boolean(shape)}, {{"dim", dim}}));
  }
  return cases;
}

/// Sizes of which some are zero or negative, and which leave rows over or exceed the number of
/// rows.
Cases grouped_cases() {
  const auto matmul = [](int64_t rows, int64_t groups, bool transposed, Fill sizes) {
    return OperatorCase{
        .kind = "grouped_matmul",
        .inputs = {f32({rows, 3}), f32(transposed ? Shape{groups, 5, 3} : Shape{groups, 3, 5}),
                   i32({groups})},
        .attributes = {{"transposed", transposed}},
        .fills = {{}, {}, sizes}};
  };
  const auto outer = [](int64_t rows, int64_t groups, Fill sizes) {
    return OperatorCase{.kind = "grouped_outer",
                        .inputs = {f32({rows, 3}), f32({rows, 5}), i32({groups})},
                        .fills = {{}, {}, sizes}};
  };
  return {matmul(7, 4, false, {-1, 3}), matmul(7, 4, true, {-1, 3}), matmul(5, 3, false, {2, 4}),
          matmul(9, 5, true, {0, 1}),   outer(7, 4, {-1, 3}),        outer(5, 3, {2, 4}),
          outer(9, 5, {0, 1})};
}

/// Starts from before the tensor to positions at which the window reaches beyond it.
Cases dynamic_cases() {
  const TensorType start = i32({});
  const auto slice = [&](TensorType x, OperatorCasesIntegers dims, OperatorCasesIntegers sizes,
                         std::vector<double> starts) {
    OperatorCase given =
        exact_case("dynamic_slice", {x}, {{"dims", dims}, {"sizes", sizes}}, {{-9, 9}});
    for (double at : starts) given.fills.push_back({at, at});
    given.inputs.insert(given.inputs.end(), starts.size(), start);
    return given;
  };
  const auto update = [&](TensorType x, TensorType part, OperatorCasesIntegers dims,
                          std::vector<double> starts) {
    OperatorCase given =
        exact_case("dynamic_update", {x, part}, {{"dims", dims}}, {{-9, 9}, {-9, 9}});
    for (double at : starts) given.fills.push_back({at, at});
    given.inputs.insert(given.inputs.end(), starts.size(), start);
    return given;
  };
  return {slice(f32({5, 7}), {1}, {3}, {2}),
          slice(f32({5, 7}), {1}, {3}, {5}),
          slice(f32({5, 7, 2}), {0, 1}, {2, 7}, {-1, -2}),
          slice(f32({5}), {}, {}, {}),
          slice(f32({7}), {0}, {4}, {7}),
          slice(i32({6, 2}), {0}, {1}, {3}),
          slice(boolean({4, 6}), {1}, {4}, {-1}),
          update(f32({5, 7}), f32({5, 3}), {1}, {2}),
          update(f32({5, 7}), f32({5, 3}), {1}, {6}),
          update(f32({5, 7, 2}), f32({2, 3, 2}), {0, 1}, {-1, 5}),
          update(f32({7}), f32({7}), {0}, {-3}),
          update(i32({6, 2}), i32({1, 2}), {0}, {5}),
          update(boolean({4, 6}), boolean({4, 2}), {1}, {3})};
}

/// Replaces out and lse by the results of attention, as attention_grad requires.
void complete_attention(const OperatorCase& given, std::vector<ReferenceTensor>& inputs) {
  OperatorCase forward{.kind = "attention",
                       .inputs = {given.inputs.begin(), given.inputs.begin() + 3},
                       .attributes = given.attributes};
  const std::vector<ReferenceTensor> operands(inputs.begin(), inputs.begin() + 3);
  const std::vector<ReferenceTensor> results =
      reference_results(find_operator("attention"), forward, operands);
  for (size_t i = 0; i < 2; ++i) inputs[3 + i] = to_reference(from_reference(results[i]));
}

Cases attention_cases() {
  const Shape q{2, 5, 3, 4}, k{2, 6, 3, 4}, lse{2, 3, 5};
  Cases cases;
  for (bool causal : {false, true}) {
    const Attributes attributes{{"causal", causal}, {"scale", 0.5}};
    cases.push_back(
        {.kind = "attention", .inputs = {f32(q), f32(k), f32(k)}, .attributes = attributes});
    cases.push_back({.kind = "attention_grad",
                     .inputs = {f32(q), f32(k), f32(k), f32(q), f32(lse), f32(q)},
                     .attributes = attributes,
                     .complete = complete_attention});
  }
  // Fewer keys than queries.
  cases.push_back({.kind = "attention",
                   .inputs = {f32(q), f32({2, 3, 3, 4}), f32({2, 3, 3, 4})},
                   .attributes = {{"causal", true}, {"scale", 1.0}}});
  return cases;
}

/// The case on operands of `narrow`; nothing when it has none of f32, or refuses them.
std::optional<OperatorCase> narrowed(OperatorCase given, DType narrow) {
  if (given.kind == "reduce" && given.attributes.text("op") == "prod") return std::nullopt;
  bool has_floats = false;
  for (size_t i = 0; i < given.inputs.size(); ++i) {
    DType& dtype = given.inputs[i].dtype;
    const bool is_log_sum_exp = given.kind == "attention_grad" && i == 4;
    if (dtype != DType::kF32 || is_log_sum_exp) continue;
    dtype = narrow;
    has_floats = true;
  }
  if (given.attributes.has("dtype") && given.attributes.text("dtype") == "f32") {
    given.attributes.set("dtype", std::string(tessera::to_text(narrow)));
    has_floats = true;
  }
  return has_floats ? std::optional(std::move(given)) : std::nullopt;
}

/// Has the operator the attribute dtype of sums?
bool may_sum_wide(const OperatorCase& given) {
  for (const char* kind :
       {"dot_general", "convolution", "convolution_grad_input", "convolution_grad_weight",
        "grouped_matmul", "grouped_outer", "scatter_add", "scatter_add_nd"})
    if (given.kind == kind) return true;
  return given.kind == "reduce" && given.attributes.text("op") == "sum";
}

}  // namespace

std::vector<OperatorCase> operator_cases() {
  Cases all;
  for (const Cases& family :
       {unary_cases(), binary_cases(), choice_cases(), source_cases(), dot_cases(),
        broadcast_cases(), reshape_cases(), window_cases(), transpose_cases(), reduce_cases(),
        gather_cases(), gather_along_cases(), gather_nd_cases(), order_cases(), scan_cases(),
        grouped_cases(), dynamic_cases(), attention_cases(), spatial_cases()})
    all.insert(all.end(), family.begin(), family.end());
  return all;
}

std::vector<OperatorCase> narrow_operator_cases() {
  Cases all;
  for (const OperatorCase& given : operator_cases())
    for (const DType narrow : {DType::kF16, DType::kBF16})
      if (std::optional<OperatorCase> made = narrowed(given, narrow)) {
        all.push_back(*made);
        if (!may_sum_wide(*made)) continue;
        made->attributes.set("dtype", std::string("f32"));
        all.push_back(std::move(*made));
      }
  return all;
}

std::vector<OperatorCase> large_operator_cases() {
  const auto attention = [](bool causal, int64_t queries, int64_t keys, int64_t depth) {
    const Shape q{1, queries, 2, depth}, k{1, keys, 2, depth};
    return OperatorCase{.kind = "attention",
                        .inputs = {f32(q), f32(k), f32(k)},
                        .attributes = {{"causal", causal}, {"scale", 0.25}}};
  };
  const auto attention_grad = [](bool causal, int64_t queries, int64_t keys, int64_t depth) {
    const Shape q{1, queries, 2, depth}, k{1, keys, 2, depth};
    return OperatorCase{.kind = "attention_grad",
                        .inputs = {f32(q), f32(k), f32(k), f32(q), f32({1, 2, queries}), f32(q)},
                        .attributes = {{"causal", causal}, {"scale", 0.25}},
                        .complete = complete_attention};
  };
  const OperatorCase product{.kind = "dot_general",
                             .inputs = {f32({67, 133}), f32({133, 45})},
                             .attributes = {{"spec", "mk,kn->mn"}}};
  const OperatorCase heads{.kind = "dot_general",
                           .inputs = {f32({3, 37, 65}), f32({3, 65, 4, 17})},
                           .attributes = {{"spec", "bse,behd->bhsd"}}};
  const OperatorCase sum{.kind = "reduce",
                         .inputs = {f32({130, 133})},
                         .attributes = {{"op", "sum"}, {"dims", OperatorCasesIntegers{0, 1}}}};
  const OperatorCase rows{.kind = "scatter_add",
                          .inputs = {i32({301}), f32({301, 33})},
                          .attributes = {{"rows", int64_t{40}}},
                          .fills = {{-1, 40}}};
  Cases all{product,
            heads,
            sum,
            rows,
            attention(false, 70, 133, 17),
            attention(true, 133, 70, 32),
            attention_grad(false, 35, 133, 17),
            attention_grad(true, 70, 67, 32),
            exact_case("transpose", {f32({65, 3, 67})},
                       {{"permutation", OperatorCasesIntegers{2, 1, 0}}}),
            exact_case("exp", {f32({1031})}, {}, {{-80, 80}}),
            exact_case("tanh", {f32({1031})}, {}, {{-10, 10}}),
            exact_case("gather", {f32({40, 33}), i32({301})}, {}, {{-1, 1}, {-1, 40}})};
  const Cases spatial = large_spatial_cases();
  all.insert(all.end(), spatial.begin(), spatial.end());
  return all;
}

}  // namespace tessera::operator_testing
