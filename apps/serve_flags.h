// The flags of `tessera serve` and `tessera generate`, in vLLM's spellings, as one plain struct.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
}

namespace tessera {

struct ServeFlags {
  std::string model;  // a folder

  // Who may talk to the server, and where it listens.
  std::string host = "0.0.0.0";
  int port = 8000;
  std::vector<std::string> served_model_names;  // the first is the one in answers; empty: the folder's name
  std::vector<std::string> api_keys;            // empty: open to all; also TESSERA_API_KEY, VLLM_API_KEY
  std::string root_path;
  std::vector<std::string> allowed_origins;  // CORS; empty: no CORS headers
  bool allow_credentials = false;
  int http_threads = 2;
  int max_connections = 4096;
  int max_concurrent_requests = 1024;  // being answered, queued ones included; more get 429
  std::int64_t max_body_bytes = std::int64_t{64} << 20;
  int drain_seconds = 30;       // after SIGTERM
  std::string record_requests;  // a folder; empty: requests are not recorded
  std::int64_t record_requests_max_bytes = std::int64_t{1} << 30;
  bool no_ui = false;  // no page at "/"

  // The engine.
  std::optional<std::int32_t> max_model_len;
  std::int32_t max_num_seqs = 128;
  std::int32_t max_num_batched_tokens = 2048;
  std::int32_t block_size = 64;
  std::string kv_cache_dtype = "auto";
  std::optional<std::int64_t> kv_cache_memory_bytes;
  std::optional<std::int32_t> num_gpu_blocks_override;
  std::int32_t tensor_parallel_size = 1;
  bool expert_parallel = false;
  std::int32_t decode_context_parallel_size = 1;
  std::string dcp_mode = "elastic";
  std::int32_t dcp_elastic_tokens = 16384;  // a longer sequence is spread over the group
  std::string dcp_comm_backend = "auto";
  bool pcie_allreduce = false;                         // GPUs may write to each other's memory
  std::string speculative_config;                      // JSON; empty: no speculation
  std::int32_t speculative_disable_above_seq_len = 0;  // tokens; 0: as the JSON says
  bool prefix_caching = true;
  bool async_scheduling = true;
  std::uint64_t seed = 0;
  bool batch_invariant = false;
  bool enforce_eager = false;
  int threads = 0;  // CPU threads that compute; 0: all
  std::string device = "auto";
  std::int32_t max_waiting = 1024;  // queued requests before new ones are refused with 503

  // Chat.
  std::string chat_template;  // a file or the template itself; empty: the checkpoint's
  std::string tool_call_parser;
  std::string reasoning_parser;
  bool enable_auto_tool_choice = false;
  bool recognise_control_tokens_in_messages = false;
  bool always_include_usage = false;
  std::string default_chat_template_kwargs = "{}";  // a JSON object, under a request's own
  std::string generation_config = "auto";  // "auto": defaults from generation_config.json; "vllm": none
  std::string override_generation_config = "{}";  // a JSON object, over that file
  int max_logprobs = 20;
  std::string response_role = "assistant";

  bool enable_log_requests = false;
  std::string log_level = "info";
  double log_stats_interval = 10;  // seconds; 0: off
  bool dry_run = false;

  std::vector<std::string> notes;  // one sentence for each accepted flag that has no meaning here
};

// Declares the flags on `app`, which fills `flags` while it parses. `flags` must outlive the parse.
void declare_engine_flags(CLI::App& app, ServeFlags& flags);
void declare_server_flags(CLI::App& app, ServeFlags& flags);

// vLLM accepts --max_model_len for --max-model-len: the same arguments in one spelling.
std::vector<std::string> with_dashes(const std::vector<std::string>& arguments);

// What to say about arguments that no flag took: the nearest known name for a misspelt flag.
Error unknown_argument(const CLI::App& app, const std::string& argument);

// Flags whose value asks for something that this build does not do; checked after parsing.
Result<void> check_flags(const ServeFlags& flags);

}  // namespace tessera
