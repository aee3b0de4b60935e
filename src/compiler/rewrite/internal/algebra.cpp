#include "compiler/rewrite/internal/algebra.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/tensor/element.h"

namespace tessera {
namespace {

using Integers = std::vector<int64_t>;

/// Views of the ops of a draft for the rules.
class Algebra {
 public:
  explicit Algebra(GraphDraft& draft) : draft_(draft) {
    for (const Variable& variable : draft.before().variables())
      if (variable.next) changing_.insert(variable.value.index);
  }

  /// Applies rules to one op until none applies.
  void visit(OpId op);

  const Attributes& attributes(OpId op) const { return draft_.attributes(op); }
  ValueId input(OpId op, size_t i) const { return draft_.inputs(op)[i]; }
  size_t input_count(OpId op) const { return draft_.inputs(op).size(); }
  const TensorType& type(ValueId value) const { return draft_.before().type(value); }
  const TensorType& result_type(OpId op) const { return type(draft_.outputs(op).front()); }
  bool keeps_type(OpId op) const { return type(input(op, 0)) == result_type(op); }

  /// Is every element of `value` this number, with this sign?
  bool is_number(ValueId value, double number) const {
    const OpId maker = draft_.producer(value);
    if (maker.index < 0 || draft_.kind(maker) != "constant") return false;
    return holds(attributes(maker).number("value"), type(value).dtype, number);
  }
  static bool holds(double given, DType dtype, double number) {
    const double held = visit_element(dtype, [given]<typename E>(E) {
      return E::to_number(E::nearest(is_integer(E::kDType) ? std::trunc(given) : given));
    });
    return held == number && std::signbit(held) == std::signbit(number);
  }
  bool is_float(ValueId value) const { return tessera::is_float(type(value).dtype); }

  /// The op that makes input 0 of `op`, when it is of the same kind and only for `op`, in the same
  /// role and stage; invalid otherwise.
  OpId inner_of(OpId op) const {
    if (input_count(op) == 0) return {};
    const OpId inner = draft_.producer(input(op, 0));
    const Graph& graph = draft_.before();
    const bool is_pair = inner.index >= 0 && draft_.kind(inner) == draft_.kind(op) &&
                         draft_.readers(draft_.outputs(inner).front()) == 1 &&
                         !draft_.is_kept(inner) && draft_.stage(inner) == draft_.stage(op) &&
                         graph.op(inner).role == graph.op(op).role;
    return is_pair ? inner : OpId{};
  }

 private:
  bool replace(OpId op, ValueId by);
  bool merge_pair(OpId op);
  void release(const std::vector<ValueId>& values);

  GraphDraft& draft_;
  std::unordered_set<int> changing_;  // values of variables that have a next value
};

/// The value that the result of `op` equals; none when the rule does not apply.
using Rule = std::optional<ValueId> (*)(const Algebra& algebra, OpId op);

std::optional<ValueId> first_if(bool applies, const Algebra& algebra, OpId op) {
  return applies ? std::optional(algebra.input(op, 0)) : std::nullopt;
}

/// The other operand of a commutative op when one of the two is `number`.
std::optional<ValueId> other_than(double number, const Algebra& algebra, OpId op) {
  for (size_t i : {size_t{0}, size_t{1}})
    if (algebra.is_number(algebra.input(op, i), number)) return algebra.input(op, 1 - i);
  return std::nullopt;
}

std::optional<ValueId> twice(const Algebra& algebra, OpId op) {
  const OpId inner = algebra.inner_of(op);
  return inner.index < 0 ? std::nullopt : std::optional(algebra.input(inner, 0));
}

bool counts_up(const Integers& list) {
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i] != static_cast<int64_t>(i)) return false;
  return true;
}

bool is_all(const Integers& list, int64_t number) {
  return std::ranges::all_of(list, [&](int64_t item) { return item == number; });
}

bool scalar_is(const Algebra& algebra, OpId op, double number) {
  return Algebra::holds(algebra.attributes(op).number("value"), DType::kF32, number);
}

const std::unordered_map<std::string_view, Rule>& rules() {
  static const std::unordered_map<std::string_view, Rule> table = {
      {"mul", [](const Algebra& a, OpId op) { return other_than(1, a, op); }},
      {"add", [](const Algebra& a,
                 OpId op) { return other_than(a.is_float(a.input(op, 0)) ? -0.0 : 0.0, a, op); }},
      {"sub",
       [](const Algebra& a, OpId op) { return first_if(a.is_number(a.input(op, 1), 0), a, op); }},
      {"mul_scalar",
       [](const Algebra& a, OpId op) { return first_if(scalar_is(a, op, 1), a, op); }},
      {"add_scalar",
       [](const Algebra& a, OpId op) { return first_if(scalar_is(a, op, -0.0), a, op); }},
      {"and",
       [](const Algebra& a, OpId op) {
         return a.result_type(op).dtype == DType::kBool ? other_than(1, a, op) : std::nullopt;
       }},
      {"or", [](const Algebra& a, OpId op) { return other_than(0, a, op); }},
      {"neg", twice},
      {"not", twice},
      {"select",
       [](const Algebra& a, OpId op) -> std::optional<ValueId> {
         if (a.input(op, 1) != a.input(op, 2)) return std::nullopt;
         return a.input(op, 1);
       }},
      {"cast", [](const Algebra& a, OpId op) { return first_if(a.keeps_type(op), a, op); }},
      {"stop_gradient", [](const Algebra& a, OpId op) { return first_if(true, a, op); }},
      {"reshape", [](const Algebra& a, OpId op) { return first_if(a.keeps_type(op), a, op); }},
      {"transpose",
       [](const Algebra& a, OpId op) {
         return first_if(counts_up(a.attributes(op).integers("permutation")), a, op);
       }},
      {"broadcast", [](const Algebra& a, OpId op) { return first_if(a.keeps_type(op), a, op); }},
      {"slice", [](const Algebra& a, OpId op) { return first_if(a.keeps_type(op), a, op); }},
      {"pad",
       [](const Algebra& a, OpId op) {
         return first_if(a.keeps_type(op) && is_all(a.attributes(op).integers("low"), 0), a, op);
       }},
      {"concat", [](const Algebra& a, OpId op) { return first_if(a.input_count(op) == 1, a, op); }},
  };
  return table;
}

/// The attributes of one op that does what `inner` and then `outer` do; none when the kind has no
/// such rule.
std::optional<Attributes> merged(std::string_view kind, const Attributes& inner,
                                 const Attributes& outer) {
  if (kind == "reshape") return outer;
  const auto composed = [&](std::string_view name, bool outer_first) {
    const Integers &from = inner.integers(name), &to = outer.integers(name);
    Integers list;
    for (int64_t i : outer_first ? to : from)
      list.push_back((outer_first ? from : to)[static_cast<size_t>(i)]);
    return list;
  };
  Attributes attributes = outer;
  // Dim i of the result is dim to[i] of the middle, which is dim from[to[i]] of x.
  if (kind == "transpose") attributes.set("permutation", composed("permutation", true));
  // Dim i of x is dim from[i] of the middle, which is dim to[from[i]] of the result.
  else if (kind == "broadcast")
    attributes.set("dims", composed("dims", false));
  else
    return std::nullopt;
  return attributes;
}

bool Algebra::replace(OpId op, ValueId by) {
  if (!draft_.may_replace(op) || changing_.contains(by.index)) return false;
  const OpId maker = draft_.producer(by);
  if (maker.index >= 0 && draft_.stage(maker) != draft_.stage(op)) return false;
  const std::vector<ValueId> inputs = draft_.inputs(op);
  draft_.replace(op, {by});
  release(inputs);
  return true;
}

bool Algebra::merge_pair(OpId op) {
  const OpId inner = inner_of(op);
  if (inner.index < 0 || draft_.is_kept(op)) return false;
  std::optional<Attributes> attributes =
      merged(draft_.kind(op), draft_.attributes(inner), draft_.attributes(op));
  if (!attributes) return false;
  draft_.redefine(op, draft_.kind(op), std::move(*attributes), {input(inner, 0)});
  draft_.drop(inner);
  return true;
}

/// Drops the makers of values that have lost their last reader. Each of them reads values that have
/// others, or only the replaced op read it.
void Algebra::release(const std::vector<ValueId>& values) {
  for (ValueId value : values) {
    const OpId maker = draft_.producer(value);
    if (maker.index < 0 || draft_.is_kept(maker) || !draft_.is_present(maker)) continue;
    const bool is_read = std::ranges::any_of(
        draft_.outputs(maker), [&](ValueId made) { return draft_.readers(made) > 0; });
    if (!is_read) draft_.drop(maker);
  }
}

void Algebra::visit(OpId op) {
  if (draft_.outputs(op).size() != 1) return;
  while (merge_pair(op)) {
  }
  const auto rule = rules().find(draft_.kind(op));
  if (rule == rules().end()) return;
  if (const std::optional<ValueId> same = rule->second(*this, op)) replace(op, *same);
}

}  // namespace

void simplify_algebra(GraphDraft& draft) {
  Algebra algebra(draft);
  for (int i = 0; i < draft.op_count(); ++i)
    if (draft.is_present({i})) algebra.visit({i});
}

}  // namespace tessera
