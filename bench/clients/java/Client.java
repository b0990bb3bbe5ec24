import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.HashMap;
import java.util.Map;

/**
 * Runs the numbered script with a JDBC driver: MySQL Connector/J or MariaDB's.
 *
 * <pre>java -cp JAR:. Client driver=mysql|mariadb host=… port=… file=… mid=… big=… [url=JDBC properties] [prepared=1]</pre>
 *
 * It prints what the driver told it, one JSON object per line; the fields are
 * those of the Go type View. Prepared says that the url makes the driver use
 * prepared statements of the server.
 */
public final class Client {
    final Map<String, String> options = new HashMap<>();
    final boolean prepared;
    final boolean mariadb;

    Client(String[] args) {
        for (String arg : args) {
            int eq = arg.indexOf('=');
            options.put(arg.substring(0, eq), arg.substring(eq + 1));
        }
        prepared = options.containsKey("prepared");
        mariadb = options.get("driver").equals("mariadb");
    }

    Connection connect(String user, String password, String db) throws SQLException {
        String common = mariadb ? "sslMode=disable&allowLocalInfile=true"
                : "sslMode=DISABLED&allowPublicKeyRetrieval=true&allowLoadLocalInfile=true";
        if (options.containsKey("tls")) {
            common = mariadb ? "sslMode=trust" : "sslMode=REQUIRED";
        }
        String url = "jdbc:" + options.get("driver") + "://" + options.get("host") + ":" + options.get("port") + "/" + db
                + "?" + common + "&" + options.getOrDefault("url", "");
        return DriverManager.getConnection(url, user, password);
    }

    int size(String name) {
        return Integer.parseInt(options.get(name));
    }

    public static void main(String[] args) throws SQLException {
        Client client = new Client(args);
        try (Connection c = client.connect("ann", "s3cret", "shop")) {
            new Script(client, c).run();
        }
    }
}
