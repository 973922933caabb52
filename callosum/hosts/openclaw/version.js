/** The version of the plugin, which is the gate's. */
export const VERSION = "0.1.0";
