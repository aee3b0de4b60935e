#include "ir/ops/sharding_rule.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

std::string text_of(const ShardingRule& rule, const DimFactor& dim) {
  std::string text = rule.factors.at(dim.factor).name;
  if (dim.unit != 1) text += "*" + std::to_string(dim.unit);
  if (dim.chunks != 1) text += "/" + std::to_string(dim.chunks);
  if (dim.window) text += "~" + to_text(*dim.window);
  return text;
}

std::string text_of(const ShardingRule& rule, const OperandFactors& operand) {
  std::vector<std::string> dims;
  for (const DimFactor& dim : operand) {
    std::vector<std::string> choices;
    for (const DimFactor& choice : choices_of(dim)) choices.push_back(text_of(rule, choice));
    dims.push_back(choices.empty() ? "_" : join(choices, " or "));
  }
  return "[" + join(dims, ", ") + "]";
}

std::string text_of(const ShardingRule& rule, const std::vector<OperandFactors>& operands) {
  std::vector<std::string> parts;
  for (const OperandFactors& operand : operands) parts.push_back(text_of(rule, operand));
  return "(" + join(parts, ", ") + ")";
}

/// The factors that are not plainly parallel: "{k: reduction sum, w: whole}".
std::string text_of_kinds(const ShardingRule& rule) {
  std::vector<std::string> parts;
  for (const Factor& factor : rule.factors) {
    if (factor.kind == FactorKind::kParallel) continue;
    std::string text = factor.name + ": " + std::string(to_text(factor.kind));
    if (factor.kind != FactorKind::kWhole) text += " " + std::string(to_text(factor.reduce));
    std::vector<std::string> outputs;
    for (int output : factor.made_whole) outputs.push_back(std::to_string(output));
    if (!outputs.empty()) text += " but of " + join(outputs, " and ");
    parts.push_back(std::move(text));
  }
  return parts.empty() ? "" : " {" + join(parts, ", ") + "}";
}

std::string text_of_linear(const ShardingRule& rule) {
  std::vector<std::string> sets;
  for (const std::vector<int>& set : rule.linear) sets.push_back(text_of_linear_set(set));
  return sets.empty() ? "" : " {linear: " + join(sets, "; ") + "}";
}

}  // namespace

std::string text_of_linear_set(const std::vector<int>& inputs) {
  std::vector<std::string> numbers;
  for (int input : inputs) numbers.push_back(std::to_string(input));
  return inputs.empty() ? "none" : join(numbers, ", ");
}

std::string_view to_text(FactorKind kind) {
  switch (kind) {
    case FactorKind::kParallel: return "parallel";
    case FactorKind::kReduction: return "reduction";
    case FactorKind::kMaskedReduction: return "masked reduction";
    case FactorKind::kWhole: return "whole";
  }
  throw InternalError("unknown kind of factor");
}

const DimFactor* find_factor(const DimFactor& dim, int factor) {
  if (dim.factor == factor) return &dim;
  for (const DimFactor& other : dim.others)
    if (other.factor == factor) return &other;
  return nullptr;
}

bool has_factor(const OperandFactors& operand, int factor) {
  return std::any_of(operand.begin(), operand.end(),
                     [&](const DimFactor& dim) { return find_factor(dim, factor) != nullptr; });
}

std::vector<DimFactor> choices_of(const DimFactor& dim) {
  if (dim.factor < 0) return {};
  std::vector<DimFactor> choices{dim};
  choices.front().others.clear();
  choices.insert(choices.end(), dim.others.begin(), dim.others.end());
  return choices;
}

Split split_of(const DimFactor& dim, const Split& factor) {
  ensure((dim.unit == 1 && dim.chunks == 1) || factor.windows.empty(),
         "what is cut in units or chunks has no windows");
  ensure(factor.chunks == 1 || !dim.window, "chunks have no windows");
  Split split = factor;
  split.chunks *= dim.chunks;
  split.unit = dim.unit;
  if (dim.window && !dim.window->is_identity()) split.windows.push_back(*dim.window);
  return split;
}

int ShardingRule::find(std::string_view name) const {
  for (size_t f = 0; f < factors.size(); ++f)
    if (factors[f].name == name) return static_cast<int>(f);
  return -1;
}

bool ShardingRule::reduces(int factor, int output) const {
  const Factor& f = factors[factor];
  if (f.kind != FactorKind::kReduction && f.kind != FactorKind::kMaskedReduction) return false;
  return !has_factor(outputs[output], factor) &&
         std::find(f.made_whole.begin(), f.made_whole.end(), output) == f.made_whole.end();
}

bool ShardingRule::excludes(int a, int b) const {
  if (a == b) return false;
  for (const auto* operands : {&inputs, &outputs})
    for (const OperandFactors& operand : *operands)
      for (const DimFactor& dim : operand)
        if (!dim.others.empty() && find_factor(dim, a) && find_factor(dim, b)) return true;
  return false;
}

std::string to_text(const ShardingRule& rule) {
  return text_of(rule, rule.inputs) + " -> " + text_of(rule, rule.outputs) + text_of_kinds(rule) +
         text_of_linear(rule);
}

}  // namespace tessera
