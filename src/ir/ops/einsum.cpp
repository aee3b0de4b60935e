#include "ir/ops/einsum.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>

#include "base/tensor/einsum.h"
#include "base/text/text.h"

namespace tessera {
namespace {

/// The subject of messages, and their first words.
struct Request {
  std::string name;
  std::string spec;

  [[noreturn]] void refuse(const std::string& what, const std::string& why,
                           const std::string& fix) const {
    throw UserError("einsum '" + name + "': " + what, why, fix, ExitCode::kBadData);
  }
};

std::string without_blanks(std::string_view text) {
  std::string kept;
  for (char c : text)
    if (c != ' ') kept += c;
  return kept;
}

void check_letters(const Request& request, const std::string& letters) {
  for (char c : letters)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
      request.refuse("'" + std::string(1, c) + "' in \"" + request.spec + "\" is not a letter",
                     "each dim has one letter; an ellipsis for several dims is not known here",
                     "write a letter for every dim");
}

/// The letters that occur once in all operands together.
std::string implied_result(const std::vector<std::string>& operands) {
  std::map<char, int> counts;
  for (const std::string& operand : operands)
    for (char letter : operand) ++counts[letter];
  std::string result;
  for (const auto& [letter, count] : counts)
    if (count == 1) result += letter;
  return result;
}

Einsum parse(const Request& request) {
  std::optional<Einsum> parsed = parse_einsum(request.spec);
  if (!parsed) {
    const std::vector<std::string> operands = split_text(request.spec, ',');
    parsed = Einsum{operands, implied_result(operands)};
  }
  const Einsum& spec = *parsed;
  for (const std::string& operand : spec.operands) check_letters(request, operand);
  check_letters(request, spec.result);
  for (size_t i = 0; i < spec.result.size(); ++i) {
    const char letter = spec.result[i];
    const bool known =
        std::any_of(spec.operands.begin(), spec.operands.end(),
                    [&](const std::string& operand) { return has_letter(operand, letter); });
    if (!known || spec.result.find(letter, i + 1) != std::string::npos)
      request.refuse("letter '" + std::string(1, letter) + "' of the result in \"" + request.spec +
                         "\" " + (known ? "occurs twice" : "is in no operand"),
                     "a dim of the result is one of an operand, once",
                     "broadcast or write a diagonal with ops of their own");
  }
  return spec;
}

void check_operands(const Request& request, Builder& builder, const Einsum& spec,
                    const std::vector<ValueId>& operands) {
  if (spec.operands.size() != operands.size())
    request.refuse("\"" + request.spec + "\" names " + std::to_string(spec.operands.size()) +
                       " operands and " + std::to_string(operands.size()) + " are given",
                   "operands are separated by commas", "write the dims of each operand");
  std::map<char, int64_t> extents;
  for (size_t i = 0; i < operands.size(); ++i) {
    const TensorType type = builder.type(operands[i]);
    const std::string who = "operand " + std::to_string(i) + " " + to_text(type);
    if (!is_float(type.dtype))
      request.refuse(who + " is not f32", "an einsum multiplies and adds f32",
                     "cast the operand first");
    if (std::ssize(spec.operands[i]) != type.shape.size())
      request.refuse(who + " does not fit '" + spec.operands[i] + "'", "each dim has one letter",
                     "write " + std::to_string(type.shape.size()) +
                         " letters, or check the layer that produces the operand");
    for (int d = 0; d < type.shape.size(); ++d) {
      const char letter = spec.operands[i][d];
      const int64_t known = extents.emplace(letter, type.shape[d]).first->second;
      if (known != type.shape[d])
        request.refuse(who + " has " + std::to_string(type.shape[d]) + " for '" +
                           std::string(1, letter) + "', which is " + std::to_string(known) +
                           " elsewhere",
                       "a letter stands for one extent; an extent of 1 is not broadcast",
                       "correct the letters of \"" + request.spec + "\"");
    }
  }
}

/// A value with a letter for each of its dims.
struct Term {
  ValueId value;
  std::string letters;
};

/// Writes the ops of one einsum.
class Writer {
 public:
  Writer(Builder& builder, const Einsum& spec) : builder_(builder), spec_(spec) {}

  ValueId write(const std::vector<ValueId>& operands, std::string_view name) {
    std::vector<Term> terms;
    for (size_t i = 0; i < operands.size(); ++i)
      terms.push_back(prepared({operands[i], spec_.operands[i]}, i));
    Term product = terms[0];
    for (size_t i = 1; i < terms.size(); ++i) {
      const bool last = i + 1 == terms.size();
      product =
          multiplied(product, terms[i], last ? spec_.result : kept_after(product, terms[i], i),
                     last ? name : "");
    }
    return ordered(product, name);
  }

 private:
  bool is_needed_beside(char letter, size_t operand) const {
    if (has_letter(spec_.result, letter)) return true;
    for (size_t i = 0; i < spec_.operands.size(); ++i)
      if (i != operand && has_letter(spec_.operands[i], letter)) return true;
    return false;
  }

  /// The term with each letter once, and only with letters that the result or another operand has.
  Term prepared(Term term, size_t operand) {
    for (size_t d = 0; d < term.letters.size(); ++d)
      for (size_t twin = term.letters.find(term.letters[d], d + 1); twin != std::string::npos;
           twin = term.letters.find(term.letters[d], d + 1))
        term = diagonal(term, d, twin);
    std::string summed;
    for (char letter : term.letters)
      if (!is_needed_beside(letter, operand)) summed += letter;
    return without(term, summed);
  }

  /// x where both dims have the same index and zero elsewhere, summed over the second dim. This is
  /// exact, and each dim may be divided.
  Term diagonal(const Term& term, size_t first, size_t second) {
    const Shape shape = builder_.shape(term.value);
    const ValueId rows = builder_.iota({DType::kI32, shape}, static_cast<int>(first));
    const ValueId columns = builder_.iota({DType::kI32, shape}, static_cast<int>(second));
    const ValueId equal = builder_.compare("eq", rows, columns);
    const ValueId zeros = builder_.constant(builder_.type(term.value), 0);
    const ValueId kept = builder_.select(equal, term.value, zeros);
    std::string letters = term.letters;
    letters.erase(second, 1);
    return {builder_.reduce_sum(kept, {static_cast<int64_t>(second)}, "diagonal"), letters};
  }

  Term without(const Term& term, const std::string& summed) {
    if (summed.empty()) return term;
    std::vector<int64_t> dims;
    std::string letters;
    for (size_t d = 0; d < term.letters.size(); ++d) {
      if (has_letter(summed, term.letters[d]))
        dims.push_back(static_cast<int64_t>(d));
      else
        letters += term.letters[d];
    }
    return {builder_.reduce_sum(term.value, dims), letters};
  }

  /// The letters of a product that later operands or the result need.
  std::string kept_after(const Term& a, const Term& b, size_t operand) const {
    std::string later = spec_.result;
    for (size_t i = operand + 1; i < spec_.operands.size(); ++i) later += spec_.operands[i];
    std::string kept;
    for (char letter : a.letters + b.letters)
      if (has_letter(later, letter) && !has_letter(kept, letter)) kept += letter;
    return kept;
  }

  /// Multiplies two terms. A letter of one operand that the result lacks has been summed before, so
  /// dot_general can compute the product.
  Term multiplied(const Term& a, const Term& b, const std::string& letters, std::string_view name) {
    return {builder_.dot(a.value, b.value, a.letters + "," + b.letters + "->" + letters, name),
            letters};
  }

  ValueId ordered(const Term& term, std::string_view name) {
    if (term.letters == spec_.result) return term.value;
    std::vector<int64_t> permutation;
    for (char letter : spec_.result)
      permutation.push_back(static_cast<int64_t>(term.letters.find(letter)));
    return builder_.transpose(term.value, permutation, name);
  }

  Builder& builder_;
  const Einsum& spec_;
};

}  // namespace

ValueId einsum(Builder& builder, std::string_view spec, const std::vector<ValueId>& operands,
               std::string_view name) {
  const Request request{builder.path(name.empty() ? "einsum" : name), without_blanks(spec)};
  const Einsum parsed = parse(request);
  check_operands(request, builder, parsed, operands);
  return Writer(builder, parsed).write(operands, name);
}

}  // namespace tessera
