/* The extension module doorbell._c. */
#include "python/py.h"

struct py_state py;

/* manual_seed(seed): of the current context */
static PyObject *
seed_current(PyObject *module, PyObject *seed)
{
    struct py_context *c = py_current();

    (void)module;
    return c ? PyObject_CallMethod((PyObject *)c, "manual_seed", "O", seed)
             : NULL;
}

static PyMethodDef functions[] = {
    {"manual_seed", seed_current, METH_O,
     "manual_seed(seed, /)\n--\n\nStarts the random numbers of a seed, in the "
     "current context."},
    {0},
};
static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "doorbell._c",
    .m_doc = "Tensors of libdoorbell.",
    .m_size = -1, /* one interpreter: state is the process's */
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__c(void);
PyMODINIT_FUNC
PyInit__c(void)
{
    PyObject *module = PyModule_Create(&definition);

    if (!module)
        return NULL;
    if (py_error_init(module) < 0 || py_dtype_init(module) < 0 ||
        py_context_init(module) < 0 || py_tensor_init(module) < 0 ||
        py_values_init(module) < 0 || py_call_init(module) < 0 ||
        py_train_init(module) < 0 || py_jit_init(module) < 0 ||
        py_file_init(module) < 0 || py_dlpack_init(module) < 0 ||
        py_size_init(module) < 0 || py_loader_init(module) < 0 ||
        py_mesh_init(module) < 0 || py_custom_init(module) < 0 ||
        py_onnx_init(module) < 0 ||
        PyModule_AddStringConstant(module, "__version__", bell_version()) < 0)
        Py_CLEAR(module);
    return module;
}
