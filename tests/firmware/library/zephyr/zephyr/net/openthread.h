typedef struct otInstance otInstance;
otInstance *openthread_get_default_instance(void);
