// Asks llama.cpp for the memory of a server on GPUs that do not exist: devices of ggml's RPC
// backend with the CPU behind them. Nothing is allocated and nothing is computed.
//
//   rpc devices <count> <port>    answers each line of standard input, the arguments of a
//                                 llama-server, with the bytes of weights, caches and compute
//                                 buffers on each device: "= 1,2,3 4,5,6", or "! reason"
//   rpc tensors <metadata.gguf>   prints the tensors that llama.cpp expects for these keys
//
// Both modes prefix their lines, because libraries print to standard output, too.

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "arg.h"
#include "common.h"
#include "ggml-backend.h"
#include "ggml-rpc.h"
#include "gguf.h"
#include "llama-ext.h"
#include "llama-model.h"
#include "llama.h"

static std::string first_error;

static void on_log(ggml_log_level level, const char * text, void *) {
    if (level == GGML_LOG_LEVEL_ERROR && first_error.empty()) {
        first_error = text;
    }
}

static std::string rejection() {
    std::string text = "! " + first_error;
    first_error.clear();
    return text.substr(0, text.find('\n'));
}

static void serve_devices(int count, const std::string & endpoint) {
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    std::vector<ggml_backend_dev_t> devices(count, cpu);
    ggml_backend_rpc_start_server(endpoint.c_str(), nullptr, 1, devices.size(), devices.data());
}

static std::string breakdown(llama_model * model, llama_context * context) {
    const int count = llama_model_n_devices(model);
    std::vector<llama_memory_breakdown_data> devices(count);
    for (const auto & [type, memory] : llama_get_memory_breakdown(context)) {
        for (int i = 0; i < count; i++) {
            if (ggml_backend_buft_get_device(type) == llama_model_get_device(model, i)) {
                devices[i].model += memory.model;
                devices[i].context += memory.context;
                devices[i].compute += memory.compute;
            }
        }
    }
    std::ostringstream line;
    line << "=";
    for (const auto & memory : devices) {
        line << " " << memory.model << "," << memory.context << "," << memory.compute;
    }
    return line.str();
}

// Does what llama-server does with its arguments before it loads a model.
static std::string answer(const std::string & line) {
    std::vector<std::string> words = { "llama-server" };
    std::istringstream stream(line);
    for (std::string word; stream >> word;) {
        words.push_back(word);
    }
    std::vector<char *> argv;
    for (auto & word : words) {
        argv.push_back(word.data());
    }
    common_params params;
    if (!common_params_parse((int) argv.size(), argv.data(), params, LLAMA_EXAMPLE_SERVER)) {
        return "! invalid arguments";
    }
    // The server needs the scores of one token per request; an embedding model those of all.
    params.n_outputs_max         = params.embedding ? params.n_batch : params.n_parallel;
    params.n_outputs_max_per_seq = 1;
    params.no_alloc              = true;
    llama_model_params model_params = common_model_params_to_llama(params);
    model_params.load_mode          = LLAMA_LOAD_MODE_NONE;
    llama_model * model = llama_model_load_from_file(params.model.path.c_str(), model_params);
    if (model == nullptr) {
        return rejection();
    }
    llama_context * context = llama_init_from_model(model, common_context_params_to_llama(params));
    const std::string text  = context == nullptr ? rejection() : breakdown(model, context);
    llama_free(context);
    llama_model_free(model);
    return text;
}

static int answer_lines(int count, const std::string & port) {
    const std::string endpoint = "127.0.0.1:" + port;
    std::thread(serve_devices, count, endpoint).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ggml_backend_register(ggml_backend_rpc_add_server(endpoint.c_str()));
    for (std::string line; std::getline(std::cin, line);) {
        std::cout << answer(line) << std::endl;
    }
    // The server thread never ends.
    std::_Exit(0);
}

static void leave_empty(ggml_tensor *, void *) {}

static int print_tensors(const char * path) {
    gguf_init_params parse   = { /*.no_alloc =*/ true, /*.ctx =*/ nullptr };
    gguf_context *   metadata = gguf_init_from_file(path, parse);
    llama_model_params params = llama_model_default_params();
    params.no_alloc           = true;
    params.load_mtp           = true;
    llama_model * model       = llama_model_init_from_user(metadata, leave_empty, nullptr, params);
    if (model == nullptr) {
        std::cerr << rejection() << std::endl;
        return 1;
    }
    for (const auto & [name, tensor] : llama_internal_get_tensor_map(model)) {
        std::cout << "= " << name;
        for (int i = 0; i < ggml_n_dims(tensor); i++) {
            std::cout << " " << tensor->ne[i];
        }
        std::cout << std::endl;
    }
    std::_Exit(0);
}

int main(int argc, char ** argv) {
    llama_log_set(on_log, nullptr);
    llama_backend_init();
    const std::string mode = argc > 2 ? argv[1] : "";
    if (mode == "tensors") {
        return print_tensors(argv[2]);
    }
    if (mode == "devices" && argc == 4) {
        return answer_lines(std::atoi(argv[2]), argv[3]);
    }
    std::cerr << "usage: rpc devices <count> <port> | rpc tensors <metadata.gguf>" << std::endl;
    return 2;
}
