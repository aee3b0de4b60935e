// Functions that the commands share: the run that the command line describes, and the streams for
// its output.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>

#include "cluster/cluster/description.h"
#include "tools/cli/internal/run/loaded_data.h"
#include "tools/cli/internal/shared_options.h"
#include "tools/launch/processes.h"
#include "training/engine/engine.h"

namespace tessera {

/// A configuration with its plan.
struct Session {
  RunConfig config;
  Plan plan;
};

/// Reads CONFIG with its overrides, and the plan: that of --plan, else that of the `stored` run,
/// else that of CONFIG. Checks the number of ranks.
///   throws  UserError of the configuration, of the plan, or of ranks that the plan does not have
///   passes  disables passes beside those that the plan disables
Session open_session(const ConfigOptions& options, const std::optional<Plan>& stored = {},
                     const PassOptions& passes = {});
/// Several processes run the command: as many ranks, and the leader finds an automatic plan.
void share_plans(ConfigOptions& options, Processes& processes, Seconds deadline);
/// The options with train.steps overridden when the command line gives a number of steps.
ConfigOptions with_steps(ConfigOptions options, const std::optional<int64_t>& steps);
/// The plan that --plan names: a file, `serial` or a preset; `otherwise` without the option.
/// Checks the number of ranks.
///   graph   the training graph; it is asked for a preset
///   throws  UserError of the plan, or of ranks that the plan does not have
Plan chosen_plan(const PlanOptions& options, const Plan& otherwise,
                 const std::function<Graph()>& graph);

/// "note: ...\n" for a recurrent model of more than kUnrolledPositions positions and layers, which
/// is compiled position by position; "" otherwise.
std::string unrolled_note(const ModelConfig& model);
inline constexpr int64_t kUnrolledPositions = 256;

/// "note: the plan was made for another cluster ...\n" where the plan has the fingerprint of
/// another one than `cluster`; "" otherwise, and for a plan without one.
///   here  the words for `cluster`: "this machine"
///   then  what follows: "; its step is estimated anew"
std::string other_cluster_note(const Plan& plan, const ClusterDescription& cluster,
                               const std::string& here, const std::string& then);

/// "note: data.max_bytes = 4,194,304 leaves out 193.4 MiB of 197.4 MiB of text\n"; "" when it
/// leaves out nothing.
std::string left_out_note(const DataConfig& config, const RunData& data);
/// The loss and its metrics as text for readers:
///
///     3.0092 on 16,384 of 200,000 tokens (8 batches); the bigram entropy of the held-out text
///     is 2.3770
///                      accuracy 28.1%, perplexity 20.27, 4.341 bits per byte
std::string evaluation_text(const Evaluation& evaluation, const RunData& data);
/// Adds an evaluation to a result: val_loss and the other numbers with "val_" before their names,
/// the evaluated units (val_tokens, val_images) and all that are held out (held_out_tokens).
/// Without an evaluation the numbers are null.
void add_evaluation(Document& document, const std::optional<Evaluation>& evaluation,
                    const Network& network, const RunData& data);
/// throws  UserError (5) when the validation loss is not finite
void check_is_a_number(const Evaluation& evaluation);
/// "; the bigram entropy of the held-out text is 2.3770"; "" without a baseline.
std::string baseline_text(const RunData& data);
/// Adds the baseline to a result; nothing without a baseline.
void add_bar(Document& document, const RunData& data);

/// The plan in a few words: "plan 'gpt.dp2-tp2' on mesh dp=2 tp=2, 4 ranks".
std::string plan_summary(const Plan& plan);

/// Writes on standard output, or on standard error when the former is reserved for a JSON object.
void narrate(const OutputOptions& output, const std::string& text);
/// Prints the result: the object with --json, else the text.
void print_result(const OutputOptions& output, const Document& json, const std::string& text);

Document to_document(const std::vector<double>& numbers);

}  // namespace tessera
